{{/* Settings that other values make, or that need a Secret: each with what to set instead. */}}
{{- define "managedSettings" -}}
hooks-dir: hooks, or the variable SHELL_OPERATOR_HOOKS_DIR in env
hook-home: the variable SHELL_OPERATOR_HOOK_HOME in env
http-listen-address: http.enabled
http-server-cert: http.secretName
http-server-key: http.secretName
kubernetes-events: kubernetesEvents
leader-election: leaderElection.mode
leader-election-lease: leaderElection.lease
shards: shards
log-level: log.level
log-type: log.type
namespace: the namespace of the release
instance: the namespace and the name of the release
prometheus-metrics-prefix: metrics.prefix
run-dir: runFiles
spool-limit: spoolLimit
tracing-otlp-auth-token: the variable TRACING_OTLP_AUTH_TOKEN in env, from a Secret
validating-webhook-configuration-name: fullnameOverride
validating-webhook-service-name: fullnameOverride
conversion-webhook-service-name: fullnameOverride
watch-hooks: watchHooks
validating-webhook-client-ca: webhooks.clientCA
conversion-webhook-client-ca: webhooks.clientCA
webhook-client-names: webhooks.clientNames
webhook-exclude-groups: webhooks.excludeGroups
webhook-exclude-namespaces: webhooks.excludeNamespaces
webhook-exclude-users: webhooks.excludeUsers
webhook-secret: fullnameOverride
{{- end -}}

{{/* Settings as variables, but for those in env. Numbers are written as JSON: YAML would have large ones as 1e+06. */}}
{{- define "settings" -}}
{{- $managed := fromYaml (include "managedSettings" .) }}
{{- $own := list }}
{{- range .Values.env }}
{{- $own = append $own .name }}
{{- end }}
{{- range $name, $value := mergeOverwrite (dict "hook-timeout" .Values.hookTimeout) .Values.settings }}
{{- with get $managed $name }}
{{- fail (printf "settings.%s has no effect in this chart: set %s" $name .) }}
{{- end }}
{{- $variable := $name | replace "-" "_" | upper }}
{{- if eq $name "debug-http-addr" }}
{{- $variable = "DEBUG_HTTP_SERVER_ADDR" }}
{{- else if not (regexMatch "^(kube|object-patcher|log|jq|validating-webhook|conversion-webhook|tracing|debug)-" $name) }}
{{- $variable = print "SHELL_OPERATOR_" $variable }}
{{- end }}
{{- if kindIs "slice" $value }}
{{- $value = join "," $value }}
{{- end }}
{{- if not (has $variable $own) }}
- {name: {{ $variable }}, value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}}
{{- end }}
{{- end }}
{{- end -}}
