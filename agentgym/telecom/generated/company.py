"""A company of our own: plans, customers, lines, devices and bills, drawn once from a fixed seed."""

from __future__ import annotations

from functools import cache
from typing import Any

from agentgym.tasks import Draws
from agentgym.telecom.state import TABLES, World, make_table, make_world

_FIRST = ("Ada", "Bruno", "Chiara", "Dev", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun", "Kemal", "Lena")
_LAST = ("Adler", "Bergman", "Costa", "Dahl", "Eriksen", "Fontaine", "Grau", "Hofer", "Ito", "Jansen", "Kovac", "Lund")
_CITIES = (("Lakeview", "MN"), ("Milltown", "OR"), ("Port Arden", "ME"), ("Stonebridge", "OH"), ("Westfield", "NM"))
_STREETS = ("Birch Lane", "Canal Street", "Dock Road", "Garden Way", "Hill Street")
_MODELS = ("Orbit 3", "Orbit 3 Mini", "Slate One", "Slate Pro", "Tern 7")
_PLANS = (
    ("Pocket", 4.0, 25.0, 4.0),
    ("Everyday", 12.0, 45.0, 2.5),
    ("Commuter", 20.0, 60.0, 2.0),
    ("Boundless", 500.0, 90.0, 0.5),
)
CUSTOMERS = 12


@cache
def company() -> World:
    """Return the company with an ordinary phone beside it, before any fault."""
    draws = Draws.seeded(2025, 2)
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in TABLES}
    for number, (name, limit, price, refuelling) in enumerate(_PLANS, 1):
        rows["plans"].append(
            {
                "plan_id": f"P10{number:02d}", "name": name, "data_limit_gb": limit, "price_per_month": price,
                "data_refueling_price_per_gb": refuelling,
            }
        )  # fmt: skip
    for number, (first, last) in enumerate(
        zip(draws.sample(_FIRST, CUSTOMERS), draws.sample(_LAST, CUSTOMERS), strict=True), 1
    ):
        _add_customer(rows, draws, number, f"{first} {last}")
    return make_world({kind: make_table(kind, rows[kind]) for kind in TABLES}, {}, {})


def _add_customer(rows: dict[str, list[dict[str, Any]]], draws: Draws, number: int, name: str) -> None:
    customer = f"C20{number:02d}"
    lines = [f"L20{number:02d}{place}" for place in range(1, 2 + draws.below(3))]
    total = 0.0
    for place, line in enumerate(lines, 1):
        plan = draws.pick(rows["plans"])
        total += plan["price_per_month"]
        device = f"D20{number:02d}{place}"
        rows["lines"].append(
            {
                "line_id": line, "phone_number": f"555-{200 + number}-{1000 + 37 * number + place}", "status": "Active",
                "plan_id": plan["plan_id"], "device_id": device, "roaming_enabled": draws.below(2) == 1,
                "data_used_gb": round(draws.uniform(0.1, 0.9) * plan["data_limit_gb"], 1),
                "contract_end_date": f"2026-{1 + draws.below(12):02d}-28",
                "last_plan_change_date": f"2024-{1 + draws.below(12):02d}-10",
            }
        )  # fmt: skip
        rows["devices"].append(
            {
                "device_id": device, "device_type": "phone", "model": draws.pick(_MODELS),
                "imei": f"35{number:04d}{place:04d}{draws.below(100_000):05d}", "is_esim_capable": draws.below(2) == 1,
                "activated": True, "activation_date": f"2024-{1 + draws.below(12):02d}-05T09:00:00",
            }
        )  # fmt: skip
    bills = [f"B20{number:02d}{month}" for month in (1, 2)]
    for bill, month, status in zip(bills, (1, 2), ("Paid", draws.pick(("Paid", "Issued"))), strict=True):
        item = {"description": f"Plans of {len(lines)} lines", "amount": total, "date": f"2025-{month:02d}-03",
                "item_type": "Plan Charge"}  # fmt: skip
        rows["bills"].append(
            {
                "bill_id": bill, "customer_id": customer, "period_start": f"2025-{month:02d}-01",
                "period_end": f"2025-{month:02d}-28", "issue_date": f"2025-{month:02d}-03", "total_due": total,
                "due_date": f"2025-{month:02d}-20", "line_items": [item], "status": status,
            }
        )  # fmt: skip
    (city, state), street = draws.pick(_CITIES), draws.pick(_STREETS)
    rows["customers"].append(
        {
            "customer_id": customer, "full_name": name,
            "date_of_birth": f"19{60 + draws.below(40)}-{1 + draws.below(12):02d}-{1 + draws.below(28):02d}",
            "email": f"{name.lower().replace(' ', '.')}@example.com",
            "phone_number": rows["lines"][-len(lines)]["phone_number"],
            "address": {"street": f"{1 + draws.below(200)} {street}", "city": city, "state": state,
                        "zip_code": f"{10000 + draws.below(80000)}"},
            "account_status": "Active", "line_ids": lines, "bill_ids": bills,
            "payment_methods": [{"method_type": "Credit Card", "account_number_last_4": f"{draws.below(10000):04d}",
                                 "expiration_date": "11/2027"}],
            "created_at": f"2023-{1 + draws.below(12):02d}-15T10:00:00", "goodwill_credit_used_this_year": 0.0,
        }
    )  # fmt: skip
