"""The company: its 13 tools, which read and change the tables, and what a task may begin with.

A tool is a function of the world and its arguments. It returns a text, a record, or values around records, and raises
a ValueError with the words of the original where the tables do not allow it. `texts.toml` describes the tools.
"""

from typing import Any

from agentgym.telecom.state import TODAY, Record, World

#: Last day of the month before, of this month, and the days of a bill that is made for the next.
_LAST_MONTH = ("2025-01-01", "2025-01-31", "2025-01-15")
_MONTH_END = "2025-02-28"
_NEXT_MONTH = ("2025-03-01", "2025-03-31", "2025-03-15")


def _find(table: dict[str, Record], key: Any, words: str) -> Record:
    found = table.get(key) if isinstance(key, str) else None
    if found is None:
        raise ValueError(f"{words} {key} not found")
    return found


def line_by_id(world: World, line_id: str) -> Record:
    """Return a line, or raise a ValueError."""
    return _find(world.lines, line_id, "Line with ID")


def line_by_phone(world: World, phone_number: str) -> Record:
    """Return the line of a number, or raise a ValueError."""
    for line in world.lines.values():
        if line["phone_number"] == phone_number:
            return line
    raise ValueError(f"Line with phone number {phone_number} not found")


def _line_of(world: World, customer_id: str, line_id: str) -> Record:
    if line_id not in get_customer_by_id(world, customer_id)["line_ids"]:
        raise ValueError(f"Line {line_id} not found for customer {customer_id}")
    return line_by_id(world, line_id)


def _bill(world: World, bill_id: str) -> Record:
    return _find(world.bills, bill_id, "Bill with ID")


def _plan(world: World, plan_id: str) -> Record:
    return _find(world.plans, plan_id, "Plan with ID")


def _change_line(world: World, line_id: str, **changed: Any) -> Record:
    record = world.lines[line_id].but(**changed)
    world.lines = {**world.lines, line_id: record}
    return record


def change_bill(world: World, bill_id: str, **changed: Any) -> None:
    """Replace values of a bill."""
    world.bills = {**world.bills, bill_id: _bill(world, bill_id).but(**changed)}


def _add_bill(world: World, customer_id: str, bill: Record) -> None:
    customer = world.customers[customer_id]
    world.bills = {**world.bills, bill["bill_id"]: bill}
    changed = customer.but(bill_ids=[*customer["bill_ids"], bill["bill_id"]])
    world.customers = {**world.customers, customer_id: changed}


def get_customer_by_phone(world: World, phone_number: str) -> Record:
    if phone_number == world.phone_number and world.owner is not None:
        return world.customers[world.owner[0]]
    for customer in world.customers.values():
        numbers = (line_by_id(world, line_id)["phone_number"] for line_id in customer["line_ids"])
        if customer["phone_number"] == phone_number or phone_number in numbers:
            return customer
    raise ValueError(f"Customer with phone number {phone_number} not found")


def get_customer_by_id(world: World, customer_id: str) -> Record:
    return _find(world.customers, customer_id, "Customer with ID")


def get_customer_by_name(world: World, full_name: str, dob: str) -> list[Record]:
    name = full_name.lower()
    return [
        customer
        for customer in world.customers.values()
        if customer["full_name"].lower() == name and customer["date_of_birth"] == dob
    ]


def get_details_by_id(world: World, id: str) -> Record:
    if id.startswith("L"):
        return line_by_id(world, id)
    if id.startswith("D"):
        return _find(world.devices, id, "Device with ID")
    if id.startswith("B"):
        return _bill(world, id)
    if id.startswith("C"):
        return get_customer_by_id(world, id)
    if id.startswith("P"):
        return _plan(world, id)
    raise ValueError(f"Unknown ID format or type: {id}")


def suspend_line(world: World, customer_id: str, line_id: str, reason: str) -> dict[str, Any]:
    if _line_of(world, customer_id, line_id)["status"] != "Active":
        raise ValueError("Line must be active to suspend")
    line = _change_line(world, line_id, status="Suspended", suspension_start_date=TODAY)
    return {"message": "Line suspended successfully. $5/month holding fee will apply.", "line": line}


def resume_line(world: World, customer_id: str, line_id: str) -> dict[str, Any]:
    if _line_of(world, customer_id, line_id)["status"] not in ("Suspended", "Pending Activation"):
        raise ValueError("Line must be suspended to resume")
    line = _change_line(world, line_id, status="Active", suspension_start_date=None)
    return {"message": "Line resumed successfully", "line": line}


def get_bills_for_customer(world: World, customer_id: str, limit: int = 12) -> list[Record]:
    bills = [_bill(world, bill_id) for bill_id in get_customer_by_id(world, customer_id)["bill_ids"]]
    return sorted(bills, key=lambda bill: str(bill["issue_date"]), reverse=True)[:limit]


def send_payment_request(world: World, customer_id: str, bill_id: str) -> str:
    customer = get_customer_by_id(world, customer_id)
    if awaited(world, customer) is not None:
        raise ValueError("A bill is already awaiting payment for this customer")
    if bill_id not in customer["bill_ids"]:
        raise ValueError(f"Bill {bill_id} not found for customer {customer_id}")
    change_bill(world, bill_id, status="Awaiting Payment")
    return f"Payment request sent to the customer for bill {bill_id}"


def awaited(world: World, customer: Record) -> Record | None:
    """Return the customer's first bill that awaits payment."""
    bills = (_bill(world, bill_id) for bill_id in customer["bill_ids"])
    return next((bill for bill in bills if bill["status"] == "Awaiting Payment"), None)


def get_data_usage(world: World, customer_id: str, line_id: str) -> dict[str, Any]:
    line = _line_of(world, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": line["data_used_gb"],
        "data_limit_gb": _plan(world, line["plan_id"])["data_limit_gb"],
        "data_refueling_gb": line["data_refueling_gb"],
        "cycle_end_date": _MONTH_END,
    }


def enable_roaming(world: World, customer_id: str, line_id: str) -> str:
    return _set_roaming(world, customer_id, line_id, True)


def disable_roaming(world: World, customer_id: str, line_id: str) -> str:
    return _set_roaming(world, customer_id, line_id, False)


def _set_roaming(world: World, customer_id: str, line_id: str, enabled: bool) -> str:
    word = "enabled" if enabled else "disabled"
    if _line_of(world, customer_id, line_id)["roaming_enabled"] == enabled:
        return f"Roaming was already {word}"
    _change_line(world, line_id, roaming_enabled=enabled)
    return f"Roaming {word} successfully"


def transfer_to_human_agents(world: World, summary: str) -> str:
    return "Transfer successful"


def refuel_data(world: World, customer_id: str, line_id: str, gb_amount: float) -> dict[str, Any]:
    line = _line_of(world, customer_id, line_id)
    if gb_amount <= 0:
        raise ValueError("Refuel amount must be positive")
    price = _plan(world, line["plan_id"])["data_refueling_price_per_gb"]
    charge, refuelled = gb_amount * price, line["data_refueling_gb"] + gb_amount
    _change_line(world, line_id, data_refueling_gb=refuelled)
    _charge(world, customer_id, charge, f"Data refueling: {gb_amount} GB at ${price}/GB")
    return {
        "message": f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}",
        "new_data_refueling_gb": refuelled,
        "charge": charge,
    }


def _charge(world: World, customer_id: str, amount: float, description: str) -> None:
    """Add an amount to the customer's draft bill, which is made if necessary."""
    bills = (_bill(world, bill_id) for bill_id in get_customer_by_id(world, customer_id)["bill_ids"])
    draft = next((bill for bill in bills if bill["status"] == "Draft"), None)
    if draft is None:
        world.made += 1
        draft = _new_bill(f"B{world.made:08d}", customer_id, _NEXT_MONTH, "Draft")
        _add_bill(world, customer_id, draft)
    kind = "Credit" if amount < 0 else "Charge"
    item = {"description": description, "amount": float(amount), "date": TODAY, "item_type": kind}
    change_bill(world, draft["bill_id"], line_items=[*draft["line_items"], item], total_due=draft["total_due"] + amount)


def _new_bill(bill_id: str, customer_id: str, days: tuple[str, str, str], status: str) -> Record:
    start, end, due = days
    return Record(
        bill_id=bill_id, customer_id=customer_id, period_start=start, period_end=end, issue_date=start, total_due=0.0,
        due_date=due, line_items=[], status=status,
    )  # fmt: skip


TOOLS = (
    get_customer_by_phone, get_customer_by_id, get_customer_by_name, get_details_by_id, suspend_line, resume_line,
    get_bills_for_customer, send_payment_request, get_data_usage, enable_roaming, disable_roaming,
    transfer_to_human_agents, refuel_data,
)  # fmt: skip


def set_data_usage(world: World, customer_id: str, line_id: str, data_used_gb: float) -> None:
    """Set the data that a line has used."""
    _line_of(world, customer_id, line_id)
    _change_line(world, line_id, data_used_gb=data_used_gb)


def suspend_line_for_overdue_bill(
    world: World, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool
) -> None:
    """Suspend a line for an unpaid bill of last month; `contract_ended` also ends its contract."""
    amount = _plan(world, line_by_id(world, line_id)["plan_id"])["price_per_month"]
    item = {"description": f"Charge for line {line_id}", "amount": amount, "date": TODAY, "item_type": "Charge"}
    bill = _new_bill(new_bill_id, customer_id, _LAST_MONTH, "Overdue").but(line_items=[item], total_due=amount)
    _add_bill(world, customer_id, bill)
    ended = {"contract_end_date": _LAST_MONTH[1]} if contract_ended else {}
    _change_line(world, line_id, status="Suspended", suspension_start_date=TODAY, **ended)


FAULTS = (set_data_usage, suspend_line_for_overdue_bill, enable_roaming, disable_roaming)
