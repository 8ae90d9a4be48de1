"""Clusters as the page may find them."""

from __future__ import annotations

from typing import Any

from tests.page.scene import Model, Scene

__all__ = [
    "HOSTILE",
    "Model",
    "Scene",
    "crowded",
    "daemon",
    "empty",
    "healthy",
    "hostile",
    "lived",
    "many",
    "troubled",
    "wedged",
]


def daemon(
    hostname: str, *, error: str | None = None, source: str = "announcement", age_s: float = 2.4
) -> dict[str, Any]:
    return {
        "connected": error is None,
        "age_s": age_s,
        "error": error,
        "events": error is None,
        "source": source,
        "trusted": True,
        "node_id": hostname,
        "hostname": hostname,
    }


def lived(scene: Scene, seconds: int = 300) -> Scene:
    """The scene after some time of its traffic."""
    for _ in range(seconds):
        scene.step()
    return scene


def healthy() -> Scene:
    """Four models on three boxes, all well; one serves from its second address, one publishes no figures."""
    fabric, lan = "http://10.100.0.3:8000/v1", "http://192.168.1.13:8000/v1"
    scene = Scene(
        [
            Model("Qwen/Qwen3-Coder-480B-A35B-Instruct", "coder", load=6.5),
            Model("deepseek-v4", "deepseek", "sglang", ("http://10.100.0.2:30000/v1",), load=11),
            Model(
                "gemma-3-27b-it",
                "gemma",
                "llamacpp",
                (fabric, lan),
                used=1,
                errors={fabric: "timed out"},
                load=2,
            ),
            Model("bge-m3", "embed", "", ("http://192.168.1.14:8080/v1",), load=1, published=False),
        ],
        {
            "10.100.0.1:6380": daemon("rack1-a", source="seed"),
            "10.100.0.2:6380": daemon("rack1-b", source="peer"),
            "192.168.1.14:6380": daemon("desk"),
        },
    )
    for address, found in scene.daemons.items():
        scene.change("daemon_seen", address, found["hostname"])
    for model in scene.models:
        scene.change("group_admitted", model.group, model.addresses[0])
    lived(scene, 210)
    scene.change("address_moved", "gemma", f"{lan}, was {fabric}")
    lived(scene, 90)
    return scene


def troubled() -> Scene:
    """What an operator comes to look at: a group without an actor, one that answers nowhere, a lost daemon."""
    scene = healthy()
    fabric, lan = "http://10.100.0.4:8000/v1", "http://192.168.1.24:8000/v1"
    errors = {fabric: "connection refused", lan: "no answer within 3 s"}
    note = "bound to 10.0.0.4 only"
    quoted = "; ".join(f"{url}: {error}" for url, error in errors.items())
    failed = f"endpoint probe failed: {quoted} (agent reports: {note})"
    scene.models.insert(2, Model("glm-5", "glm", why_not="no running actors"))
    scene.models.append(
        Model("kimi-k3", "kimi", "vllm", (fabric, lan), why_not=failed, errors=errors, note=note)
    )
    scene.daemons["192.168.1.14:6380"] = daemon("desk", error="no answer within 3 s", age_s=48.0)
    scene.change("group_refused", "glm", "no running actors")
    scene.step()
    scene.change("group_refused", "kimi", failed)
    scene.change("daemon_lost", "192.168.1.14:6380", "no answer within 3 s")
    scene.step()
    stuck = scene.begin(scene.models[0])
    scene.end(stuck, 502, "failed", "http://10.0.0.1:8000/v1: the engine ended the exchange before an answer")
    scene.refuse(404, "model_not_found", "the model 'gpt-4o' is served by no group")
    scene.refuse(503, "model_not_ready", "the model 'glm-5' is not ready: glm: no running actors", "glm-5")
    return lived(scene, 4)


def wedged() -> Scene:
    """An engine that took its requests and stopped."""
    scene = Scene([Model("tiny", load=0, running=0), Model("other", load=3)], {"10.0.0.1:6380": daemon("a")})
    lived(scene, 240)
    for _ in range(3):
        scene.begin(scene.models[0])
    lived(scene, 42)
    scene.begin(scene.models[0])
    return scene


def empty(*, daemons: bool = False) -> Scene:
    """A router that has just been started."""
    return Scene([], {"127.0.0.1:6380": daemon("desk", source="seed")} if daemons else {})


def many(models: int = 200) -> Scene:
    """More models than fit a screen."""
    scene = Scene(
        [
            Model(f"model-{n:03}", provider=("vllm", "sglang", "llamacpp")[n % 3], load=1 + n % 4)
            if n % 23 != 7
            else Model(f"model-{n:03}", why_not="endpoint probe stale")
            for n in range(models)
        ],
        {f"10.0.0.{n}:6380": daemon(f"box{n}") for n in range(1, 9)},
    )
    return lived(scene, 40)


def crowded(requests: int = 5000) -> Scene:
    """A model with very many requests."""
    scene = Scene([Model("tiny"), Model("other")], {"10.0.0.1:6380": daemon("a")}, churn=False)
    for n in range(requests):
        request = scene.begin(scene.models[0])
        if n % 3:
            scene.first_byte(request)
        if n % 50 == 0:
            scene.step()
    return scene


HOSTILE = (
    '<img src=x onerror="document.title=`owned`">',
    "x" * 300,
    "\u202egnp.live\u202c",
    "🦙🔥 模型 نموذج",
    "'; rm -rf / #",
    "a&b=<c>%00?d",
    "__proto__",
)


def hostile() -> Scene:
    """Names from machines that mean no good, everywhere a name can stand."""
    markup = HOSTILE[0]
    scene = Scene(
        [Model(name, f"group {name}", name) for name in HOSTILE]
        + [
            Model(
                "down",
                markup,
                why_not=f"endpoint probe failed: {markup}",
                errors={markup: markup},
                note=markup,
            )
        ],
        {name: daemon(name, error=name) for name in HOSTILE},
    )
    scene.models[-1].addresses = (markup,)
    lived(scene, 20)
    scene.change("group_refused", markup, markup)
    scene.refuse(404, markup, markup, markup)
    request = scene.begin(scene.models[0], path=markup, client=markup)
    scene.end(request, 502, "failed", markup)
    scene.begin(scene.models[0], path=markup, client=markup)
    return scene
