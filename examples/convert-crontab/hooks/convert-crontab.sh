#!/usr/bin/env bash
# Converts CronTabs between their three versions. The steps connect adjacent versions only; the operator chains them for
# other requests of the API server.
#
#   v1alpha1  spec.cron: "5 4 * * 1"
#   v1beta1   spec.minute, spec.hour, spec.dayOfMonth, spec.month, spec.dayOfWeek
#   v1        the same five in spec.schedule
source "${SHELL_LIB:-/shell_lib.sh}"

fields='["minute", "hour", "dayOfMonth", "month", "dayOfWeek"]'

__config__() {
  cat <<'EOF'
configVersion: v1
kubernetesCustomResourceConversion:
- name: crontabs
  crdName: crontabs.example.com
  conversions:
  - {fromVersion: example.com/v1alpha1, toVersion: example.com/v1beta1}
  - {fromVersion: example.com/v1beta1, toVersion: example.com/v1}
  - {fromVersion: example.com/v1, toVersion: example.com/v1beta1}
  - {fromVersion: example.com/v1beta1, toVersion: example.com/v1alpha1}
EOF
}

# A step gets all objects of a list in one run. If one of them cannot be converted, none is.
__on_conversion::crontabs::example.com.v1alpha1::example.com.v1beta1() {
  local wrong
  wrong=$(conversion::objects | jq -r 'select([.spec.cron // "" | splits(" +") | select(. != "")] | length != 5)
    | "\(.metadata.name): spec.cron \(.spec.cron | tojson) has not five fields: minute, hour, day of month, month, day of week"')
  if [[ -n $wrong ]]; then
    conversion::fail "${wrong//$'\n'/; }"
    return
  fi
  conversion::convert '.apiVersion = $context.toVersion
    | ([.spec.cron | splits(" +") | select(. != "")]) as $values
    | .spec |= del(.cron) + ([$fields, $values] | transpose | map({(.[0]): .[1]}) | add)' --argjson fields "$fields"
}

__on_conversion::crontabs::example.com.v1beta1::example.com.v1() {
  conversion::convert '.apiVersion = $context.toVersion
    | .spec |= with_entries(select(.key | IN($fields[]) | not)) + {schedule: with_entries(select(.key | IN($fields[])))}' \
    --argjson fields "$fields"
}

__on_conversion::crontabs::example.com.v1::example.com.v1beta1() {
  conversion::convert '.apiVersion = $context.toVersion | .spec |= del(.schedule) + .schedule'
}

# A missing field means any time.
__on_conversion::crontabs::example.com.v1beta1::example.com.v1alpha1() {
  conversion::convert '.apiVersion = $context.toVersion
    | .spec |= with_entries(select(.key | IN($fields[]) | not)) + {cron: ([$fields[] as $field | .[$field] // "*"] | join(" "))}' \
    --argjson fields "$fields"
}

hook::run "$@"
