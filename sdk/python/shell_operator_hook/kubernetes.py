"""Changes of objects in the cluster. They are applied after the hook has succeeded, in the order of the calls."""

from typing import Iterable, List, Mapping, Optional, Union

from . import _files
from .context import JSON, Object

Manifest = Union[Mapping[str, JSON], str]
"""A Kubernetes object, or YAML or JSON text of one."""


def create(manifest: Manifest, *, subresource: str = "") -> None:
    """Fails if the object exists. With subresource, such as "eviction", the request goes to it."""
    _create("Create", manifest, subresource)


def create_if_not_exists(manifest: Manifest) -> None:
    """Does not change an existing object."""
    _create("CreateIfNotExists", manifest)


def create_or_update(manifest: Manifest) -> None:
    """Replaces an existing object: fields that the manifest lacks are removed."""
    _create("CreateOrUpdate", manifest)


def apply(manifest: Manifest, *, subresource: str = "", force: bool = False) -> None:
    """Server-side apply: changes only the fields of the manifest.

    force: takes over fields of other field managers; otherwise they are conflicts.
    """
    _create("Apply", manifest, subresource, force)


def merge_patch(
    kind: str,
    name: str,
    patch: Union[Mapping[str, JSON], str],
    *,
    namespace: str = "",
    api_version: str = "",
    subresource: str = "",
    ignore_missing: bool = False,
    ignore_hook_error: bool = False,
) -> None:
    """Changes one object by a JSON merge patch, given as a value or as YAML or JSON text.

    ignore_missing: an object that does not exist is no error. ignore_hook_error: with subresource "status", change it even
    if the hook fails afterwards.
    """
    operation = _address("MergePatch", kind, name, namespace, api_version)
    operation["mergePatch"] = patch if isinstance(patch, str) else dict(patch)
    _patch(operation, "mergePatch", subresource, ignore_missing, ignore_hook_error)


def json_patch(
    kind: str,
    name: str,
    patch: Union[List[Object], str],
    *,
    namespace: str = "",
    api_version: str = "",
    subresource: str = "",
    ignore_missing: bool = False,
    ignore_hook_error: bool = False,
) -> None:
    """Changes one object by a list of JSON patch operations. The options are those of merge_patch."""
    operation = _address("JSONPatch", kind, name, namespace, api_version)
    operation["jsonPatch"] = patch if isinstance(patch, str) else list(patch)
    _patch(operation, "jsonPatch", subresource, ignore_missing, ignore_hook_error)


def jq_patch(
    kind: str,
    name: str,
    jq_filter: str,
    *,
    namespace: str = "",
    api_version: str = "",
    subresource: str = "",
    ignore_missing: bool = False,
    ignore_hook_error: bool = False,
) -> None:
    """Changes one object by a jq filter whose input is the old object and whose output is the new one. The options are those of merge_patch."""
    operation = _address("JQPatch", kind, name, namespace, api_version)
    operation["jqFilter"] = jq_filter
    _patch(operation, "jqFilter", subresource, ignore_missing, ignore_hook_error)


def delete(
    kind: str,
    name: str,
    *,
    namespace: str = "",
    api_version: str = "",
    background: bool = False,
    orphan: bool = False,
) -> None:
    """Deletes one object and waits until it and its dependents are deleted. A missing object is no error.

    background: does not wait; what depends on it is deleted later. orphan: what depends on it stays.
    """
    if background and orphan:
        raise ValueError("choose one of background and orphan")
    operation = "DeleteInBackground" if background else "DeleteNonCascading" if orphan else "Delete"
    _files.append("KUBERNETES_PATCH_PATH", _address(operation, kind, name, namespace, api_version))


def sync(
    name: str,
    objects: Iterable[Manifest],
    *,
    owner: Optional[Mapping[str, JSON]] = None,
    allow_empty: bool = False,
    force: bool = False,
    drift: str = "",
    prune_kinds: Iterable[str] = (),
) -> None:
    """Makes a set of objects complete: applies objects, and deletes those of earlier calls that are not among them.

    name is unique for the hook and the owner. owner is an object, or its apiVersion, kind, namespace and name. allow_empty: no objects delete
    the whole set. force: adopts existing objects, and takes fields from other field managers.
    drift: "restore" (default) or "ignore" what other clients change. prune_kinds: kinds with data that are deleted, too, such as
    "PersistentVolumeClaim".
    """
    if not name:
        raise ValueError("the name of the set is empty")
    document: Object = {"operation": "Sync", "set": name}
    if owner is not None:
        document["owner"] = _owner(owner)
    for key, flag in (("allowEmpty", allow_empty), ("force", force)):
        if flag:
            document[key] = True
    if drift:
        document["drift"] = drift
    kinds = list(prune_kinds)
    if kinds:
        document["pruneKinds"] = kinds
    document["objects"] = [o if isinstance(o, str) else dict(o) for o in objects]
    if not document["objects"] and not allow_empty:
        raise ValueError("there are no objects, which deletes the whole set: set allow_empty if that is meant")
    _files.append("KUBERNETES_PATCH_PATH", document)


def _owner(owner: Mapping[str, JSON]) -> Object:
    metadata = owner.get("metadata")
    identity: Mapping[str, JSON] = metadata if isinstance(metadata, Mapping) else owner
    address: Object = {key: owner[key] for key in ("apiVersion", "kind") if owner.get(key)}
    address.update({key: identity[key] for key in ("namespace", "name", "uid") if identity.get(key)})
    if not all(address.get(key) for key in ("apiVersion", "kind", "name")):
        raise ValueError("the owner must have apiVersion, kind and a name")
    return address


def condition(
    kind: str,
    name: str,
    type: str,  # as the API calls it
    status: Union[bool, str],
    reason: str,
    message: str = "",
    *,
    namespace: str = "",
    api_version: str = "",
    ignore_missing: bool = False,
    ignore_hook_error: bool = False,
) -> None:
    """Sets one condition in the status of an object. The conditions of other types stay. If nothing but the time would change, the object is not
    changed.

    status: a bool, or "True", "False" or "Unknown". reason: a word for programs; message: a text for people. ignore_missing: an object that
    does not exist is no error. ignore_hook_error: set it even if the hook fails afterwards.
    """
    operation = _address("Condition", kind, name, namespace, api_version)
    if str(status) not in ("True", "False", "Unknown"):
        raise ValueError(f"status is {status!r}; choose one of True, False and 'Unknown'")
    operation.update(_texts(type=type, reason=reason), status=str(status))
    if message:
        operation["message"] = message
    _patch(operation, "type", "", ignore_missing, ignore_hook_error)


def event(regarding: Mapping[str, JSON], type: str, reason: str, action: str, note: str = "") -> None:
    """Publishes a Kubernetes Event about an object. It never fails the run. Of many Events about one object most are dropped.

    regarding: the object, such as that of the context, or apiVersion, kind, namespace, name and uid of it. type: "Normal" or "Warning".
    reason: why; action: what was done; note: a text for people.
    """
    if type not in ("Normal", "Warning"):
        raise ValueError(f"type is {type!r}; choose one of 'Normal' and 'Warning'")
    of = {**regarding, **(regarding.get("metadata") or {})}
    if not of.get("apiVersion") or not of.get("kind") or not of.get("name"):
        raise ValueError("regarding needs apiVersion, kind and a name")
    reference = {key: of[key] for key in ("apiVersion", "kind", "namespace", "name", "uid") if of.get(key)}
    document: Object = {"operation": "Event", "regarding": reference, "type": type, **_texts(reason=reason, action=action)}
    if note:
        document["note"] = note
    _files.append("KUBERNETES_PATCH_PATH", document)


def _texts(**texts: str) -> Object:
    for key, text in texts.items():
        if not text:
            raise ValueError(f"{key} must not be empty")
    return dict(texts)


def _create(operation: str, manifest: Manifest, subresource: str = "", force: bool = False) -> None:
    if isinstance(manifest, str):
        if not manifest.strip():
            raise ValueError("the manifest is empty")
    elif not manifest.get("kind"):
        raise ValueError("the manifest has no kind")
    document: Object = {"operation": operation, "object": manifest if isinstance(manifest, str) else dict(manifest)}
    if subresource:
        document["subresource"] = subresource
    if force:
        document["force"] = True
    _files.append("KUBERNETES_PATCH_PATH", document)


def _address(operation: str, kind: str, name: str, namespace: Optional[str], api_version: Optional[str]) -> Object:
    if not kind or not name:
        raise ValueError(f"kind and name must not be empty: kind is {kind!r}, name is {name!r}")
    address: Object = {"operation": operation}
    if api_version:
        address["apiVersion"] = api_version
    address["kind"] = kind
    if namespace:
        address["namespace"] = namespace
    address["name"] = name
    return address


def _patch(operation: Object, field: str, subresource: str, ignore_missing: bool, ignore_hook_error: bool) -> None:
    if not operation[field]:
        raise ValueError("the patch is empty")
    if subresource:
        operation["subresource"] = subresource
    if ignore_missing:
        operation["ignoreMissingObject"] = True
    if ignore_hook_error:
        operation["ignoreHookError"] = True
    _files.append("KUBERNETES_PATCH_PATH", operation)
