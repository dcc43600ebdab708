#!/usr/bin/env bash
# Denies images whose content can change at any time: with the tag "latest", or without a tag.
#
# WATCH_NAMESPACE  only objects of this namespace; of all that have the label when it is empty
source "${SHELL_LIB:-/shell_lib.sh}"

# The failure policy is the default, Fail: if the hook does not respond, requests are rejected. So
# the operator's own namespace must not have the label.
__config__() {
  cat <<EOF
configVersion: v1
kubernetesValidating:
- name: validate-image.example.com
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods, pods/ephemeralcontainers]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  - apiGroups: [apps]
    apiVersions: [v1]
    resources: [deployments]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  namespace:
    labelSelector:
      matchLabels:
        example.com/validate-image: enabled
        ${WATCH_NAMESPACE:+kubernetes.io/metadata.name: "$WATCH_NAMESPACE"}
  timeoutSeconds: 5
EOF
}

# An image is [host[:port]/]name[:tag][@digest]. A digest is sufficient. In an update, existing images are
# not checked: an old object can still be labelled, scaled and deleted.
__on_validating::validate-image.example.com() {
  local problems
  problems=$(context::jq -r '
    def images: (.spec.template // .).spec? // {}
      | [(.initContainers, .containers, .ephemeralContainers) // [] | .[] | {name, image: (.image // "")}];
    def problem: (.image | split("/") | last | split(":")) as $parts
      | if .image | contains("@") then empty
        elif $parts | length < 2 then "has no tag"
        elif $parts[1] == "latest" then "has the tag latest"
        else empty end;
    .review.request
    | ((.object | images) - ((.oldObject // {}) | images))[]
    | "image \u0027\(.image)\u0027 of container \u0027\(.name)\u0027 \(problem)"
  ')
  if [[ -z $problems ]]; then
    admission::allow
  else
    admission::deny "${problems//$'\n'/; }: name a version"
  fi
}

hook::run "$@"
