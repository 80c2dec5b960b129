"""The Kubernetes files: strictly valid, KubeRay's fields by name, and as safe and as frugal as the README says."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema
from small_model import random_directory

from jobs.cluster.profiles import load_profile
from jobs.cluster.submit.submission import Submission
from jobs.errors import UserError
from jobs.serve.deployment import settings_of
from jobs.serve.http.keys import add_key
from jobs.serve.settings import Limits

INFRA = Path(__file__).resolve().parents[1] / "infra"
KUBERNETES = "v1.32.0-local-strict"
PLAIN = ["kuberay/namespace.yaml", "kuberay/settings.yaml", "kuberay/network-policy.yaml", "mlflow/kubernetes.yaml"]
DEFINED = "io.k8s.api.core.v1."

# The fields that KubeRay 1.6 has, of those that make sense here. A field that is not in this list is a mistake.
CLUSTER = {
    "rayVersion",
    "authOptions",
    "enableInTreeAutoscaling",
    "autoscalerOptions",
    "headGroupSpec",
    "workerGroupSpecs",
}
AUTOSCALER = {"version", "upscalingMode", "idleTimeoutSeconds", "imagePullPolicy", "resources", "securityContext"}
HEAD = {"serviceType", "rayStartParams", "template"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template"}
JOB = {
    "entrypoint", "metadata", "activeDeadlineSeconds", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished",
    "backoffLimit", "submissionMode", "submitterConfig", "submitterPodTemplate", "rayClusterSpec",
}  # fmt: skip

SERVICE = {
    "serveConfigV2", "rayClusterConfig", "upgradeStrategy", "rayClusterDeletionDelaySeconds",
    "excludeHeadPodFromServeSvc",
}  # fmt: skip


@lru_cache
def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((INFRA / name).read_text(encoding="utf-8")) if document]


@lru_cache
def definitions() -> dict[str, Any]:
    file = resources.files("kubernetes_validate") / "kubernetes-json-schema" / KUBERNETES / "_definitions.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@lru_cache
def validator(definition: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**definitions(), "$ref": f"#/$defs/{definition}"})


def definition_of(document: dict[str, Any]) -> str:
    """The schema of a whole document, found by the group, version and kind that it carries."""
    group, _, version = document["apiVersion"].rpartition("/")
    wanted = {"group": group, "kind": document["kind"], "version": version}
    matches = [n for n, d in definitions()["$defs"].items() if wanted in d.get("x-kubernetes-group-version-kind", [])]
    (name,) = matches
    return str(name)


def mistakes(value: Any, definition: str) -> list[str]:
    return [f"{list(error.path)}: {error.message}" for error in validator(definition).iter_errors(value)]


def cluster_spec() -> dict[str, Any]:
    spec: dict[str, Any] = documents("kuberay/cluster.yaml")[0]["spec"]
    return spec


def job_spec() -> dict[str, Any]:
    spec: dict[str, Any] = documents("kuberay/job.yaml")[0]["spec"]
    return spec


def service_spec() -> dict[str, Any]:
    spec: dict[str, Any] = documents("kuberay/service.yaml")[0]["spec"]
    return spec


def ray_templates() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "head", cluster_spec()["headGroupSpec"]["template"]
    yield "service head", service_spec()["rayClusterConfig"]["headGroupSpec"]["template"]
    for group in [*cluster_spec()["workerGroupSpecs"], *service_spec()["rayClusterConfig"]["workerGroupSpecs"]]:
        yield group["groupName"], group["template"]


def all_templates() -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ray_templates()
    yield "submitter", job_spec()["submitterPodTemplate"]
    for document in documents("mlflow/kubernetes.yaml"):
        if "template" in document.get("spec", {}):
            yield document["metadata"]["name"], document["spec"]["template"]


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_file_is_valid_to_the_letter(name: str) -> None:
    for document in documents(name):
        assert mistakes(document, definition_of(document)) == []


def test_a_misspelt_field_is_caught() -> None:
    template = copy.deepcopy(dict(all_templates())["head"])
    template["spec"]["containers"][0]["imagePullPolice"] = "Always"
    assert "imagePullPolice" in mistakes(template, DEFINED + "PodTemplateSpec")[0]
    policy = copy.deepcopy(documents("kuberay/network-policy.yaml")[0])
    policy["spec"]["ingres"] = []
    assert "ingres" in mistakes(policy, definition_of(policy))[0]


def test_kuberays_documents_have_only_fields_that_kuberay_has() -> None:
    (cluster,), (job,) = documents("kuberay/cluster.yaml"), documents("kuberay/job.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = cluster["spec"]
    assert set(spec) == CLUSTER
    assert set(job["spec"]) == JOB
    assert set(spec["autoscalerOptions"]) <= AUTOSCALER
    assert set(spec["authOptions"]) <= {"mode", "secretName"}
    assert set(spec["headGroupSpec"]) == HEAD
    assert all(set(group) == WORKERS for group in spec["workerGroupSpecs"])
    assert set(job["spec"]["submitterConfig"]) == {"backoffLimit"}
    assert job["spec"]["submissionMode"] in {"K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"}
    assert mistakes(spec["autoscalerOptions"]["resources"], DEFINED + "ResourceRequirements") == []
    assert mistakes(spec["autoscalerOptions"]["securityContext"], DEFINED + "SecurityContext") == []
    for parameters in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        assert all(isinstance(value, str) for value in parameters["rayStartParams"].values())


@pytest.mark.parametrize("where", [name for name, _ in all_templates()])
def test_a_pod_is_valid_bounded_and_unprivileged(where: str) -> None:
    template = dict(all_templates())[where]
    assert mistakes(template, DEFINED + "PodTemplateSpec") == []
    pod = template["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all("hostPath" not in volume for volume in pod.get("volumes", []))
    assert (
        where.endswith("head") or pod["automountServiceAccountToken"] is False
    )  # the autoscaler on the head needs its own
    for container in containers(template):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security.get("privileged", False) is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        for kind in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][kind])
        image = container["image"].rpartition(":")[2]
        assert image not in {"latest", container["image"]}


@pytest.mark.parametrize("where", [name for name, _ in all_templates() if name not in {"submitter"}])
def test_a_service_is_probed(where: str) -> None:
    for container in dict(all_templates())[where]["spec"]["containers"]:
        assert {"readinessProbe", "livenessProbe"} <= set(container)


def test_probes_ask_paths_that_ray_answers_without_a_token() -> None:
    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent / "dashboard"
    head_paths = (package / "http_server_head.py").read_text(encoding="utf-8").partition("public_exact_paths")[2][:900]
    node_paths = (package / "http_server_agent.py").read_text(encoding="utf-8").partition("PUBLIC_EXACT_PATHS")[2][:300]
    public = {8265: head_paths, 52365: node_paths}
    asked = 0
    for _, template in ray_templates():
        for container in template["spec"]["containers"]:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                get = container[probe]["httpGet"]
                assert f'"{get["path"]}"' in public[get["port"]]
                asked += 1
    assert asked == 15


def test_the_job_has_the_cluster_that_stays_and_ends_by_itself() -> None:
    job = job_spec()
    assert job["rayClusterSpec"] == cluster_spec()
    assert job["activeDeadlineSeconds"] > 0
    assert job["shutdownAfterJobFinishes"] is True
    assert job["entrypoint"].startswith("python -m pipelines.cli run ")
    words, said = job["entrypoint"].split(), Submission(
        recipe="", fingerprint="", arguments=(), profile=load_profile("gpu8"), workspace=""
    ).metadata  # fmt: skip
    assert job["metadata"].keys() <= said.keys(), "what `attn jobs` looks for"
    assert (words[4], words[6]) == (job["metadata"]["attn.recipe"], job["metadata"]["attn.profile"])
    (settings,) = documents("kuberay/settings.yaml")
    assert job["metadata"]["attn.workspace"] == settings["data"]["ATTN_WORKSPACE"]


def test_the_service_is_upgraded_without_a_gap_and_needs_keys() -> None:
    (document,) = documents("kuberay/service.yaml")
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", "RayService")
    spec = service_spec()
    assert set(spec) == SERVICE
    assert spec["upgradeStrategy"] == {"type": "NewCluster"}
    cluster = spec["rayClusterConfig"]
    assert set(cluster) == CLUSTER
    assert {name: cluster[name] for name in ("rayVersion", "authOptions", "autoscalerOptions")} == {
        name: cluster_spec()[name] for name in ("rayVersion", "authOptions", "autoscalerOptions")
    }
    assert set(cluster["headGroupSpec"]) == HEAD
    (group,) = cluster["workerGroupSpecs"]
    assert set(group) == WORKERS
    config = ServeDeploySchema(**yaml.safe_load(spec["serveConfigV2"]))  # Serve's own reading of it
    (application,) = config.applications
    module, _, function = application.import_path.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    assert application.args["keys"].startswith("/etc/attn/")
    profile = load_profile(application.args["profile"])
    (container,) = group["template"]["spec"]["containers"]
    assert profile.cpus == float(container["resources"]["requests"]["cpu"]) * group["maxReplicas"]
    assert config.http_options.port in [port["containerPort"] for port in container["ports"]]


def test_the_services_settings_are_read_and_a_mistake_in_them_is_a_sentence(tmp_path: Path) -> None:
    config = yaml.safe_load(service_spec()["serveConfigV2"])
    args, directory = config["applications"][0]["args"], random_directory(tmp_path / "model")
    parser = random_directory(tmp_path / "parser", symbols=("(S", ")S", "XX"))
    add_key(tmp_path / "keys", "alice")
    args |= {"models": [f"a={directory}", f"b:en-fr={directory}", f"c={parser}"], "keys": str(tmp_path / "keys")}
    settings = settings_of(args | {"limits": {"requests_per_minute": 60}, "cors": ["https://example.org"]})
    assert [(model.name, model.source, model.target) for model in settings.models] == [
        ("a", "en", "de"), ("b", "en", "fr"), ("c", "en", "trees"),
    ]  # fmt: skip
    assert settings.limits == Limits(requests_per_minute=60)
    assert (settings.cors, list((settings.keys or {}).values())) == (("https://example.org",), ["alice"])
    assert settings.on == load_profile("cpu-cluster").serve
    with pytest.raises(UserError, match="NAME=ADDRESS"):
        settings_of(args | {"models": [str(directory)]})
    with pytest.raises(UserError, match="no limit speed: there are characters"):
        settings_of(args | {"limits": {"speed": 1}})


def test_the_cluster_is_authenticated_current_and_costs_nothing_at_rest() -> None:
    spec = cluster_spec()
    assert spec["authOptions"]["mode"] == "token"
    assert spec["rayVersion"] == metadata.version("ray")
    assert spec["enableInTreeAutoscaling"] is True
    assert [group["minReplicas"] for group in spec["workerGroupSpecs"]] == [0, 0]


def test_the_profiles_fit_into_the_groups() -> None:
    groups = {group["groupName"]: group for group in cluster_spec()["workerGroupSpecs"]}

    def of(group: str, resource: str) -> float:
        (container,) = groups[group]["template"]["spec"]["containers"]
        return float(container["resources"]["requests"][resource]) * groups[group]["maxReplicas"]

    gpu32, gpu8, cpus = load_profile("gpu32"), load_profile("gpu8"), load_profile("cpu-cluster")
    assert gpu32.gpus == of("gpu", "nvidia.com/gpu")
    assert gpu32.cpus == of("gpu", "cpu")
    assert gpu8.gpus == of("gpu", "nvidia.com/gpu") / groups["gpu"]["maxReplicas"]
    assert gpu8.cpus == of("gpu", "cpu") / groups["gpu"]["maxReplicas"]
    assert cpus.cpus == of("cpu", "cpu")


def test_the_network_policy_covers_every_ray_pod_and_shuts_the_door() -> None:
    (policy,) = documents("kuberay/network-policy.yaml")
    ours = policy["spec"]["podSelector"]["matchLabels"].items()
    for _, template in [*ray_templates(), ("submitter", job_spec()["submitterPodTemplate"])]:
        assert ours <= template["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert all(rule.get("from") for rule in policy["spec"]["ingress"])  # nobody comes in without a name
    blocks = [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule.get("to", []) if "ipBlock" in peer]
    assert all("169.254.169.254/32" in block["except"] for block in blocks)


@pytest.mark.parametrize("directory", ["kuberay", "mlflow"])
def test_a_kustomization_names_files_that_are_there(directory: str) -> None:
    (kustomization,) = documents(f"{directory}/kustomization.yaml")
    named = [*kustomization["resources"], *(f for g in kustomization.get("configMapGenerator", []) for f in g["files"])]
    assert all((INFRA / directory / name).is_file() for name in named)
    used = {c["image"].rpartition(":")[0] for _, template in all_templates() for c in containers(template)}
    assert {image["name"] for image in kustomization["images"]} <= used


def test_settings_and_services_agree() -> None:
    settings = documents("kuberay/settings.yaml")[0]
    address = settings["data"]["MLFLOW_TRACKING_URI"]
    service = next(
        d for d in documents("mlflow/kubernetes.yaml") if d["kind"] == "Service" and d["metadata"]["name"] == "mlflow"
    )
    assert address == f"http://mlflow.attn.svc.cluster.local:{service['spec']['ports'][0]['port']}"
    server = dict(all_templates())["mlflow"]["spec"]["containers"][0]
    allowed = server["args"][server["args"].index("--allowed-hosts") + 1]
    assert "mlflow.attn.svc.cluster.local:*" in allowed.split(",")
