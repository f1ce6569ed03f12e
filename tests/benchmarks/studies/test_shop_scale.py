"""The costs of a large shop: steps in processes of their own, searches of a shop on the disk."""

import pytest
from typer.testing import CliRunner

from agentgym.webshop.store import StoredCatalogue
from benchmarks.json_files import load
from benchmarks.run import app
from benchmarks.studies.shop_scale import RESULTS, ShopScale


@pytest.mark.slow
def test_a_small_shop_is_measured_and_kept(tmp_path):
    command = ["shop-scale", "--products", "300", "--queries", "5", "--out", str(tmp_path / "shop")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "300 generated products" in result.output
    found = load(ShopScale, tmp_path / "shop" / RESULTS)
    store, index, first, searches = found.steps
    assert store.disk * 2**20 == pytest.approx(
        sum(path.stat().st_size for path in (tmp_path / "shop" / "catalogue").iterdir()), abs=1
    )
    assert index.disk > 0 == first.disk
    assert all(step.peak > step.private >= 0 and step.seconds > 0 for step in (store, index, first, searches))
    assert len({row.kind for row in found.searches}) == len(found.searches) == 4
    assert all(row.rate > 0 and row.slowest >= row.median > 0 for row in found.searches)
    assert len(StoredCatalogue(tmp_path / "shop" / "catalogue")) == 300

    again = CliRunner().invoke(app, command)
    assert again.exit_code == 1
    assert "holds a shop already" in again.output
