#!/usr/bin/env bash
# Of the team shop: denies products whose price is no number. It is registered for the namespace of the team only.
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
kubernetesValidating:
- name: prices.example.com
  labelSelector: {matchLabels: {example.com/product: "true"}}
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE], scope: Namespaced}
YAML
}

__on_validating::prices.example.com() {
  local price
  price=$(context::get review.request.object.data.price)
  if [[ $price =~ ^[0-9]+$ ]]; then
    admission::allow
  else
    admission::deny "the price of a product is a number, not '$price'"
  fi
}

hook::run "$@"
