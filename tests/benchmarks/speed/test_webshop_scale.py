"""The costs of a large shop: steps in processes of their own, searches of a shop on the disk."""

import pytest
from typer.testing import CliRunner

from agentgym.webshop.store import StoredCatalogue
from benchmarks.run import app
from benchmarks.speed.webshop_scale import STUDY


@pytest.mark.slow
def test_a_small_shop_is_measured_and_kept(tmp_path):
    command = ["speed", "shop-scale", "--products", "300", "--queries", "5", "--out", str(tmp_path / "shop")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "300 generated products" in result.output
    found = STUDY.load(tmp_path / "shop" / "shop-scale.json").measurements
    value = {each.key: each.value for each in found}
    size = sum(path.stat().st_size for path in (tmp_path / "shop" / "catalogue").iterdir())
    assert value["generate_disk"] * 1e6 == pytest.approx(size, abs=1)
    assert value["index_disk"] > 0
    assert "open_disk" not in value
    for step in ("generate", "index", "open", "search"):
        assert value[f"{step}_peak"] > value[f"{step}_private"] >= 0 < value[f"{step}_processor"]
    kinds = [each.what for each in found if each.column == "searches"]
    assert len(set(kinds)) == len(kinds) == 4
    for kind in (each.replace(" ", "_") for each in kinds):
        assert value[f"searches_{kind}"] > 0
        assert value[f"slowest_{kind}"] >= value[f"median_{kind}"] > 0
    assert len(StoredCatalogue(tmp_path / "shop" / "catalogue")) == 300
    assert CliRunner().invoke(app, command).exit_code == 0  # again: every step is kept
    assert STUDY.load(tmp_path / "shop" / "shop-scale.json").measurements == found
