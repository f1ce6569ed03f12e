"""The customer's phone: its 30 tools, and what can be wrong with it.

A tool is a function of the world and its arguments that returns its answer, a text, to the character that of the
original. `texts.toml` describes the tools.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentgym.telecom.state import APN, PERMISSIONS, World

MODES = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
#: The network that a preference looks for; the first falls back to 4G where there is no 5G.
_NETWORK = dict(zip(MODES, ("5G", "4G", "3G", "2G"), strict=True))
_BARS = {
    "none": "📵 No Signal",
    "poor": "📶¹ Poor",
    "fair": "📶² Fair",
    "good": "📶³ Good",
    "excellent": "📶⁴ Excellent",
}
_SIM = {
    "active": "Your SIM card is active and working.",
    "missing": "No SIM card detected in the phone.",
    "locked_pin": "The SIM card is locked with a PIN code.",
    "locked_puk": "The SIM card is locked with a PUK code.",
}
#: Lowest and highest speed of a network in Mbps, and the share of it that a signal gives.
_SPEEDS = {"2G": (0.1, 0.4), "3G": (1.0, 5.0), "4G": (10.0, 100.0), "5G": (50.0, 500.0), "none": (0.0, 0.0)}
_SHARES = {"poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0, "none": 0.0}
#: Below which speed a connection has which grade, and what it is good for.
_GRADES = (
    (1, "Very Poor", "Connection is very slow. Basic web browsing might be difficult."),
    (5, "Poor", "Connection is slow. Web browsing may be sluggish, streaming difficult."),
    (25, "Fair", "Connection is okay for web browsing and some standard definition streaming."),
    (100, "Good", "Connection is good for most activities, including HD streaming."),
    (float("inf"), "Excellent", "Connection is very fast."),
)
#: What a connection to the VPN is like. The original's default is "excellent", but it is one object for all phones of a
#: process, and the first task with a slow VPN makes it "poor" for good: so it is in every recorded episode.
VPN = {"server_address": "192.168.1.1", "protocol": "OpenVPN", "server_performance": "poor"}


def search_network(world: World) -> None:
    """Look for a network: what the phone is connected to follows from SIM, preference, airplane mode, APN and line."""
    apn = world.active_apn_settings
    if sim_status(world) != "active" or world.airplane_mode or apn["apn_name"] == "broken" or not world.line_active:
        world.network_connection_status = "no_service"
        world.network_technology_connected = world.network_signal_strength = "none"
        return
    around = world.signal_strength
    network = _NETWORK.get(world.network_mode_preference, "4G")
    if network == "5G" and around.get("5G", "none") == "none":
        network = "4G"
    world.network_connection_status = "connected"
    world.network_technology_connected = network
    world.network_signal_strength = around.get(network, "none")


def sim_status(world: World) -> str:
    """Return "active", "missing", "locked_pin" or "locked_puk"."""
    status: str = "missing" if world.sim_card_missing else world.sim_card_status
    return status


def data_works(world: World) -> bool:
    """Say whether mobile data flows."""
    return not (
        world.airplane_mode
        or world.network_signal_strength == "none"
        or world.network_connection_status == "no_service"
        or (world.is_abroad and not (world.roaming_enabled and world.roaming_allowed))
        or not world.data_enabled
        or world.mobile_data_usage_exceeded
    )


def speed(world: World) -> tuple[float | None, str]:
    """Return the speed in Mbps and its grade; (None, "No Connection") where no data flows."""
    if not data_works(world):
        return None, "No Connection"
    details = world.vpn_details
    slow = world.vpn_connected and details is not None and details["server_performance"] == "poor"
    factor = 0.1 if slow else 1.0
    if world.data_saver_mode:
        factor *= 0.2
    low, high = _SPEEDS[world.network_technology_connected]
    found = round((low + high) / 2.0 * _SHARES[world.network_signal_strength] * factor, 2)
    return found, next(grade for below, grade, _ in _GRADES if found < below)


def mms_works(world: World) -> bool:
    """Say whether pictures can be sent."""
    messaging = world.app_statuses.get("messaging")
    return (
        data_works(world)
        and world.network_technology_connected != "2G"
        and not (world.wifi_calling_enabled and world.wifi_calling_mms_over_wifi)
        and world.active_apn_settings["mmsc_url"] is not None
        and messaging is not None
        and messaging["permissions"]["storage"]
        and messaging["permissions"]["sms"]
    )


def status_bar(world: World) -> str:
    """Return what stands at the top of the screen."""
    if world.airplane_mode:
        shown = ["✈️ Airplane Mode"]
    else:
        shown = [_BARS[world.network_signal_strength]]
        connected = world.network_technology_connected
        if connected != "none":
            shown.append(connected)
        if world.data_enabled and connected != "none":
            shown.append("📱 Data Enabled")
            if world.data_saver_mode:
                shown.append("🔽 Data Saver")
        else:
            shown.append("📵 Data Disabled")
    if world.wifi_enabled and world.wifi_connected:
        shown.append(f"📡 Connected to {world.wifi_ssid}" if world.wifi_ssid else "📡 Enabled")
    if world.vpn_connected:
        shown.append("🔒 VPN Connected")
    shown.append(f"🔋 {world.battery_level}%")
    return " | ".join(shown)


def _with_bar(world: World, text: str) -> str:
    return f"{text}\nStatus Bar: {status_bar(world)}"


def _switched(world: World, what: str, on: bool) -> str:
    return _with_bar(world, f"{what} is now {'ON' if on else 'OFF'}.")


def check_status_bar(world: World) -> str:
    return f"Status Bar: {status_bar(world)}"


def check_network_status(world: World) -> str:
    on, yes = ("OFF", "ON"), ("No", "Yes")
    lines = [
        f"Airplane Mode: {on[world.airplane_mode]}",
        f"SIM Card Status: {sim_status(world)}",
        f"Cellular Connection: {world.network_connection_status}",
        f"Cellular Signal: {world.network_signal_strength}",
        f"Cellular Network Type: {world.network_technology_connected}",
        f"Mobile Data Enabled: {yes[world.data_enabled]}",
        f"Data Roaming Enabled: {yes[world.roaming_enabled]}",
        f"Wi-Fi Radio: {on[world.wifi_enabled]}",
        f"Wi-Fi Connected: {yes[world.wifi_connected]}",
    ]
    if world.wifi_connected:
        lines.append(f"Connected Wi-Fi Network: {world.wifi_ssid}")
    return "\n".join(lines)


def check_network_mode_preference(world: World) -> str:
    return f"Network Mode Preference: {world.network_mode_preference}"


def set_network_mode_preference(world: World, mode: str) -> str:
    if mode not in MODES:
        known = ", ".join(MODES)
        words = f"Failed to set network mode: '{mode}' is not a valid option. Please use one of: {known}"
        return _with_bar(world, words)
    world.network_mode_preference = mode
    search_network(world)
    return _with_bar(world, f"Preferred Network Mode set to: {mode}")


def run_speed_test(world: World) -> str:
    found, grade = speed(world)
    if found is None:
        return f"Speed test failed: {grade}."
    advice = next(words for _, each, words in _GRADES if each == grade)
    return f"Speed Test Result: {found:.2f} Mbps ({grade}). {advice}"


def toggle_airplane_mode(world: World) -> str:
    on = world.airplane_mode = not world.airplane_mode
    if on or world.wifi_enabled:
        world.wifi_connected, world.wifi_ssid, world.wifi_signal_strength = False, None, "none"
    if on and world.vpn_connected:
        world.vpn_connected, world.vpn_details = False, None
    search_network(world)
    return _switched(world, "Airplane Mode", on)


def check_sim_status(world: World) -> str:
    return _SIM[sim_status(world)]


def reseat_sim_card(world: World) -> str:
    world.sim_card_missing = False
    search_network(world)
    return _with_bar(world, "SIM card re-seated successfully.")


def toggle_data(world: World) -> str:
    world.data_enabled = not world.data_enabled
    search_network(world)
    return _switched(world, "Mobile Data", world.data_enabled)


def toggle_roaming(world: World) -> str:
    world.roaming_enabled = not world.roaming_enabled
    search_network(world)
    return _switched(world, "Data Roaming", world.roaming_enabled)


def check_data_restriction_status(world: World) -> str:
    return "Data Saver mode is ON (limits data usage)." if world.data_saver_mode else "Data Saver mode is OFF."


def toggle_data_saver_mode(world: World) -> str:
    world.data_saver_mode = not world.data_saver_mode
    return _switched(world, "Data Saver Mode", world.data_saver_mode)


def check_apn_settings(world: World) -> str:
    apn = world.active_apn_settings
    return (
        f"Current APN Name: {apn['apn_name'] or 'Not Set'}\n"
        f"MMSC URL (for picture messages): {apn['mmsc_url'] or 'Not Set'}\n"
        "(These are technical settings, usually best left unchanged.)"
    )


def set_apn_settings(world: World, apn_settings: dict[str, Any]) -> str:
    world.active_apn_settings = _read_apn(apn_settings)
    search_network(world)
    return _with_bar(world, f"APN settings set to: {world.active_apn_settings['apn_name']}")


def _read_apn(given: Any) -> dict[str, Any]:
    """Return whole APN settings; where the original quotes its validator, the ValueError says the same in our words."""
    if not isinstance(given, dict):
        raise ValueError(f"'{type(given).__name__}' object has no attribute 'apn_name'")
    for name, value in given.items():
        kind = {"reset_at_reboot": bool, "mms_port": int | None}.get(name, str if name == "apn_name" else str | None)
        if name not in APN:
            raise ValueError(f"APN settings: unknown setting {name!r}; they are {', '.join(APN)}")
        if not isinstance(value, kind) or (name == "apn_name" and value not in ("internet", "broken")):
            expected = "'internet' or 'broken'" if name == "apn_name" else getattr(kind, "__name__", str(kind))
            raise ValueError(f"APN settings: {name} must be {expected}, got {value!r:.200}")
    return {**APN, **given}


def reset_apn_settings(world: World) -> str:
    world.active_apn_settings = {**world.active_apn_settings, "reset_at_reboot": True}
    search_network(world)
    return _with_bar(world, "APN settings will reset at reboot.")


def check_wifi_status(world: World) -> str:
    if not world.wifi_enabled:
        return "Wi-Fi is turned OFF."
    if not world.wifi_connected:
        return "Wi-Fi is ON but not connected to any network."
    return f"Wi-Fi is ON and connected to '{world.wifi_ssid}'. Signal strength: {world.wifi_signal_strength}."


def toggle_wifi(world: World) -> str:
    if world.airplane_mode:
        return _with_bar(world, "Cannot change Wi-Fi settings while Airplane Mode is ON.")
    on = world.wifi_enabled = not world.wifi_enabled
    if not on:
        world.wifi_connected, world.wifi_ssid, world.wifi_signal_strength = False, None, "none"
    return _switched(world, "Wi-Fi", on)


def check_wifi_calling_status(world: World) -> str:
    return f"Wi-Fi Calling is currently turned {'ON' if world.wifi_calling_enabled else 'OFF'}."


def toggle_wifi_calling(world: World) -> str:
    world.wifi_calling_enabled = not world.wifi_calling_enabled
    return _switched(world, "Wi-Fi Calling", world.wifi_calling_enabled)


def check_vpn_status(world: World) -> str:
    if world.vpn_connected:
        details = world.vpn_details
        if not details:
            return "VPN is ON and connected (no specific details available)."
        grade = details["server_performance"]
        known = "".join(f"{name!r}: {details[name]!r}, " for name in ("server_address", "protocol"))
        shown = f"{{{known}'server_performance': <PerformanceLevel.{grade.upper()}: {grade!r}>}}"
        return f"VPN is ON and connected. Details: {shown}"
    if world.vpn_enabled_setting:
        return "VPN is turned ON in settings, but currently not connected."
    return "VPN is turned OFF."


def connect_vpn(world: World) -> str:
    if world.vpn_connected:
        return "VPN already connected."
    world.vpn_connected, world.vpn_details = True, VPN
    return _with_bar(world, "VPN connected successfully.")


def disconnect_vpn(world: World) -> str:
    if not world.vpn_connected:
        return _with_bar(world, "No active VPN connection to disconnect.")
    world.vpn_connected, world.vpn_details = False, None
    return _with_bar(world, "VPN disconnected successfully.")


def check_installed_apps(world: World) -> str:
    return f"The following apps are installed on the phone: {', '.join(world.app_statuses)}"


def _granted(world: World, app_name: str) -> list[str] | None:
    app = world.app_statuses.get(app_name)
    return None if app is None else [name for name, granted in app["permissions"].items() if granted]


def check_app_status(world: World, app_name: str) -> str:
    granted = _granted(world, app_name)
    if granted is None:
        return f"App '{app_name}' not found on this phone."
    listed = [" - Permissions Granted:", *(f"   - {name}" for name in granted)]
    return "\n".join([f"Status for App: {app_name}", *(listed if granted else [" - Permissions: None granted."])])


def check_app_permissions(world: World, app_name: str) -> str:
    granted = _granted(world, app_name)
    if granted is None:
        return f"App '{app_name}' not found on this phone."
    if not granted:
        return f"App '{app_name}' currently has no permissions granted."
    return f"App '{app_name}' has permission for: {', '.join(granted)}."


def grant_app_permission(world: World, app_name: str, permission: str) -> str:
    app, permission = world.app_statuses.get(app_name), permission.lower()
    if app is None:
        return _with_bar(world, f"Error. App '{app_name}' not found. Cannot grant permission.")
    if permission not in PERMISSIONS:
        words = f"Permission '{permission}' not tracked for app '{app_name}', available permissions: {[*PERMISSIONS]}"
        return _with_bar(world, f"Error. {words}")
    _permit(world, app_name, permission, True)
    return _with_bar(world, f"Success. Permission '{permission}' granted to app '{app_name}'.")


def _permit(world: World, app_name: str, permission: str, granted: bool) -> None:
    app = world.app_statuses[app_name]
    changed = {**app, "permissions": {**app["permissions"], permission: granted}}
    world.app_statuses = {**world.app_statuses, app_name: changed}


def can_send_mms(world: World) -> str:
    return f"Your messaging app {'can' if mms_works(world) else 'cannot'} send MMS messages."


def reboot_device(world: World) -> str:
    words = "Restarting network services..."
    if world.active_apn_settings["reset_at_reboot"]:
        words = f"Resetting APN settings...\n{words}"
        world.active_apn_settings = APN
    search_network(world)
    return _with_bar(world, words)


def check_payment_request(world: World) -> str:
    request = world.payment_request
    if request is None:
        return "No payment request has been made."
    return f"You have a payment request for bill {request['bill_id']} of {request['amount_due']} USD."


def make_payment(world: World) -> str:
    request = world.payment_request
    if request is None:
        return "You do not have a payment request."
    world.payment_request = {**request, "paid": True}
    return f"Payment of {request['amount_due']} USD has been made for bill {request['bill_id']}."


TOOLS = (
    check_status_bar, check_network_status, check_network_mode_preference, set_network_mode_preference, run_speed_test,
    toggle_airplane_mode, check_sim_status, reseat_sim_card, toggle_data, toggle_roaming, check_data_restriction_status,
    toggle_data_saver_mode, check_apn_settings, set_apn_settings, reset_apn_settings, check_wifi_status, toggle_wifi,
    check_wifi_calling_status, toggle_wifi_calling, check_vpn_status, connect_vpn, disconnect_vpn, check_installed_apps,
    check_app_status, check_app_permissions, grant_app_permission, can_send_mms, reboot_device, check_payment_request,
    make_payment,
)  # fmt: skip


# What a task begins with: faults, and who the customer is.


def set_user_info(world: World, name: str, phone_number: str) -> None:
    """Say whose phone it is."""
    world.name, world.phone_number, world.owner, world.agreed = name, phone_number, None, ()


def turn_airplane_mode_on(world: World) -> None:
    """Switch airplane mode on."""
    toggle_airplane_mode(world)
    if not world.airplane_mode:
        toggle_airplane_mode(world)


def break_vpn(world: World) -> None:
    """Connect to a slow VPN."""
    connect_vpn(world)
    world.vpn_details = {**VPN, "server_performance": "poor"}


def set_wifi_calling(world: World, enabled: bool, mms_over_wifi: bool | None = None) -> None:
    """Set Wi-Fi calling, and whether pictures go that way."""
    world.wifi_calling_enabled = enabled
    if mms_over_wifi is not None:
        world.wifi_calling_mms_over_wifi = mms_over_wifi


def _set(world: World, search: bool = True, **values: Any) -> None:
    for name, value in values.items():
        setattr(world, name, value)
    if search:
        search_network(world)


def _break_apn(world: World, search: bool = True, **values: Any) -> None:
    _set(world, search, active_apn_settings={**world.active_apn_settings, **values})


FAULTS: Mapping[str, Callable[..., Any]] = {
    "set_user_info": set_user_info,
    "set_user_location": lambda world, abroad: _set(world, False, is_abroad=abroad),
    "turn_airplane_mode_on": turn_airplane_mode_on,
    "turn_data_off": partial(_set, data_enabled=False),
    "turn_roaming_on": partial(_set, roaming_enabled=True),
    "turn_roaming_off": partial(_set, roaming_enabled=False),
    "turn_data_saver_mode_on": partial(_set, search=False, data_saver_mode=True),
    "unseat_sim_card": partial(_set, sim_card_missing=True),
    "lock_sim_card": lambda world, mode: _set(world, sim_card_status=f"locked_{mode}"),
    "break_apn_settings": partial(_break_apn, apn_name="broken"),
    "break_apn_mms_setting": partial(_break_apn, search=False, mmsc_url=None),
    "break_vpn": break_vpn,
    "remove_app_permission": partial(_permit, granted=False),
    "set_wifi_calling": set_wifi_calling,
    "simulate_network_search": search_network,
    "set_network_mode_preference": set_network_mode_preference,
}
