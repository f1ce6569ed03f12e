"""The fewest calls that solve a case from any state, found by A* over the values that faults change. Privileged."""

import heapq
import math
from collections.abc import Sequence
from itertools import count
from typing import Any

from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom.rules import CASES, TOOLS, solved, synchronise
from agentgym.telecom.state import World
from agentgym.telecom.tasks import Task

DONE = ToolCall("done", {})
#: Calls on the phone that may be a part of a shortest solution.
_ON_THE_PHONE = tuple(ToolCall(*call) for call in CASES["repairs"])
#: Maximum number of states of a search.
_MOST = 20_000


class Expert:
    """Plans of one case, remembered for the states that they lead through."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._plans: dict[tuple[Any, ...], tuple[ToolCall, ...] | None] = {}
        world = World(task.start)
        self._line = next(
            line["line_id"] for line in world.lines.values() if line["phone_number"] == world.phone_number
        )
        self._customer = next(
            each["customer_id"] for each in world.customers.values() if self._line in each["line_ids"]
        )
        named = (call.arguments.get("overdue_bill_id") for call in task.assertions)
        self._bills = [bill for bill in named if bill in world.bills]
        self._amount = next(
            (call.arguments["expected_amount"] for call in task.assertions if "expected_amount" in call.arguments), None
        )

    def plan(self, world: World, left: Sequence[ToolCall]) -> tuple[ToolCall, ...] | None:
        """Return the fewest calls to success, the last of which ends the episode, or None; `world` is unchanged.

        `left` are the calls that the task requires and that were not made yet.
        """
        start = world.snapshot()
        transfer = next((call for call in left if call.name == "transfer_to_human_agents"), None)
        key = (self._key(world), transfer is None)
        if key not in self._plans:
            end = transfer or DONE
            path = self._search(World(start))
            self._plans[key] = None if path is None else (*path, end)
            if path is not None:
                step = World(start)
                for number, call in enumerate(path):
                    self._play(step, call)
                    self._plans.setdefault((self._key(step), transfer is None), (*path[number + 1 :], end))
        return self._plans[key]

    def _search(self, world: World) -> tuple[ToolCall, ...] | None:
        """Return the fewest calls after which all assertions hold."""
        order = count()
        start = world.snapshot()
        first = self._least(world)
        # Among equal sums the deepest first: the estimate is exact nearly everywhere, and one path is followed down.
        queue: list[tuple[float, float, int, tuple[Any, ...], tuple[ToolCall, ...]]]
        queue = [(first, first, next(order), start, ())]
        best = {self._key(world): 0}
        while queue and len(best) < _MOST:
            total, _, _, values, path = heapq.heappop(queue)
            if total == math.inf:
                return None
            world.load(values)
            if self._least(world) == 0 and all(solved(world, self.task.assertions)):
                return path
            for call in self._candidates(world):
                world.load(values)
                if not self._play(world, call):
                    continue
                key, cost = self._key(world), len(path) + 1
                if cost < best.get(key, math.inf):
                    best[key] = cost
                    left = self._least(world)
                    heapq.heappush(queue, (cost + left, left, next(order), world.snapshot(), (*path, call)))
        return None

    def _play(self, world: World, call: ToolCall) -> bool:
        try:
            TOOLS[call.name].function(world, **call.arguments)
        except ValueError:
            return False
        synchronise(world)
        return True

    def _candidates(self, world: World) -> list[ToolCall]:
        ours = {"customer_id": self._customer, "line_id": self._line}
        found = [*_ON_THE_PHONE, ToolCall("enable_roaming", ours), ToolCall("resume_line", ours)]
        if self.task.actions:
            found.append(ToolCall("suspend_line", {**ours, "reason": "contract"}))
        if self._amount is not None:
            missing = self._amount - world.lines[self._line]["data_refueling_gb"]
            found += [ToolCall("refuel_data", {**ours, "gb_amount": missing})] if missing > 0 else []
        elif world.mobile_data_usage_exceeded:
            found.append(ToolCall("refuel_data", {**ours, "gb_amount": 2.0}))
        return found + [
            ToolCall("send_payment_request", {"customer_id": self._customer, "bill_id": bill}) for bill in self._bills
        ]

    def _key(self, world: World) -> tuple[Any, ...]:
        """Return the values of a state that faults and their repairs change."""
        line, apn, request = world.lines[self._line], world.active_apn_settings, world.payment_request
        permissions = world.app_statuses["messaging"]["permissions"]
        details = world.vpn_details
        return (
            world.airplane_mode, world.sim_card_missing, world.sim_card_status, world.network_connection_status,
            world.network_technology_connected, world.network_signal_strength, world.data_enabled,
            world.roaming_enabled, world.network_mode_preference, apn["apn_name"], apn["mmsc_url"] is None,
            apn["reset_at_reboot"], world.data_saver_mode, details and details["server_performance"],
            world.wifi_calling_enabled and world.wifi_calling_mms_over_wifi, permissions["sms"],
            permissions["storage"], line["status"], line["roaming_enabled"], line["data_refueling_gb"],
            request and (request["bill_id"], request["paid"]),
            tuple(world.bills[bill]["status"] for bill in world.customers[self._customer]["bill_ids"]),
        )  # fmt: skip

    def _reached(self, world: World, pictures: bool, data: bool) -> bool:
        """Return whether the phone is in a network that is good enough."""
        network, signal = world.network_technology_connected, world.network_signal_strength
        if data:
            return network == "5G" and signal in ("good", "excellent")
        return world.network_connection_status == "connected" and not (
            (pictures and network == "2G") or signal == "none"
        )

    def _least(self, world: World) -> float:
        """Return a lower bound of the calls to a solution: one for each thing that is still broken."""
        searching = other = 0  # repairs that look for a network, and those that do not
        names = {call.name for call in self.task.assertions}
        if ToolCall("assert_service_status", {"expected_status": "no_service"}) in self.task.assertions:
            return float(world.network_connection_status != "no_service")
        pictures, data = "assert_can_send_mms" in names, "assert_mobile_data_status" in names
        if world.sim_card_status != "active":
            return math.inf
        if pictures or data:
            searching += not world.data_enabled
            searching += world.is_abroad and not world.roaming_enabled
            other += world.is_abroad and not world.roaming_allowed
            if self._amount is None:
                other += world.mobile_data_usage_exceeded
        if data:
            other += world.data_saver_mode
            other += world.vpn_connected and (world.vpn_details or {}).get("server_performance") == "poor"
        if pictures:
            permissions = world.app_statuses["messaging"]["permissions"]
            other += world.wifi_calling_enabled and world.wifi_calling_mms_over_wifi
            other += (not permissions["sms"]) + (not permissions["storage"])
        apn = world.active_apn_settings
        no_mmsc = pictures and apn["mmsc_url"] is None
        # A phone keeps the network that it has until something makes it look for one.
        if searching or no_mmsc or not self._reached(world, pictures, data):
            mode = world.network_mode_preference
            repairs = (
                world.airplane_mode + world.sim_card_missing + (no_mmsc or apn["apn_name"] == "broken")
                + ((data and mode != "4g_5g_preferred") or (pictures and mode == "2g_only"))
            )  # fmt: skip
            # If the phone only has to search again, that is a call of its own.
            searching += repairs or not searching
            other += not world.line_active
        if self._amount is not None:
            refuelled = world.lines[self._line]["data_refueling_gb"]
            if refuelled - self._amount >= 1e-6:
                return math.inf
            other += self._amount - refuelled >= 1e-6
        for bill in self._bills:
            if world.bills[bill]["status"] != "Paid":
                request = world.payment_request
                other += 1 if request is not None and request["bill_id"] == bill else 2
        return float(searching + other)
