{{/* Variables that follow from the values. Those of .Values.env come after them, and win. */}}
{{- define "env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
# Events name the Pod by its uid; the operator is not allowed to read Pods.
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: SHELL_OPERATOR_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
# Read-only: what hooks write to their own directories does not reach the operator. kubectl keeps there what it has learned.
- {name: HOME, value: /}
- {name: SHELL_OPERATOR_HOOK_HOME, value: own}
- {name: SHELL_OPERATOR_RUN_DIR, value: /run-files}
{{- with .Values.spoolLimit | default (include "half" .Values.tmpSizeLimit) }}
- {name: SHELL_OPERATOR_SPOOL_LIMIT, value: {{ int64 . | quote }}}
{{- end }}
{{- with include "goMemLimit" . }}
- {name: GOMEMLIMIT, value: {{ . | quote }}}
{{- end }}
{{- if include "watches" . }}
- {name: SHELL_OPERATOR_WATCH_HOOKS, value: "true"}
{{- end }}
{{- if eq (include "source" .) "git" }}
- {name: SHELL_OPERATOR_HOOKS_DIR, value: {{ include "gitDirectory" . | quote }}}
{{- end }}
- {name: LOG_LEVEL, value: {{ .Values.log.level | quote }}}
- {name: LOG_TYPE, value: {{ .Values.log.type | quote }}}
{{- if ne .Values.metrics.prefix "shell_operator_" }}
- {name: SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX, value: {{ .Values.metrics.prefix | quote }}}
{{- end }}
{{- if include "leads" . }}
- {name: SHELL_OPERATOR_LEADER_ELECTION, value: "true"}
- {name: SHELL_OPERATOR_LEADER_ELECTION_LEASE, value: {{ include "lease" . | quote }}}
{{- end }}
{{- if include "shards" . }}
- {name: SHELL_OPERATOR_SHARDS, value: {{ .Values.shards | quote }}}
- {name: SHELL_OPERATOR_LEADER_ELECTION_LEASE, value: {{ include "lease" . | quote }}}
{{- end }}
{{- /* It does not change with the number of replicas. */}}
- {name: SHELL_OPERATOR_INSTANCE, value: {{ printf "%s.%s" .Release.Namespace (include "name" .) | trunc 100 | trimSuffix "." | trimSuffix "-" | quote }}}
{{- if not .Values.kubernetesEvents }}
- {name: SHELL_OPERATOR_KUBERNETES_EVENTS, value: "false"}
{{- end }}
{{- if include "admits" . }}
- {name: VALIDATING_WEBHOOK_CONFIGURATION_NAME, value: {{ include "configuration" . }}}
- {name: VALIDATING_WEBHOOK_SERVICE_NAME, value: {{ include "name" . }}-admission}
{{- with include "excluded" . }}
- {name: SHELL_OPERATOR_WEBHOOK_EXCLUDE_NAMESPACES, value: {{ . | quote }}}
{{- end }}
{{- with .Values.webhooks.excludeUsers }}
- {name: SHELL_OPERATOR_WEBHOOK_EXCLUDE_USERS, value: {{ join "," . | quote }}}
{{- end }}
{{- with .Values.webhooks.excludeGroups }}
- {name: SHELL_OPERATOR_WEBHOOK_EXCLUDE_GROUPS, value: {{ join "," . | quote }}}
{{- end }}
{{- end }}
{{- if .Values.webhooks.conversion.enabled }}
- {name: CONVERSION_WEBHOOK_SERVICE_NAME, value: {{ include "name" . }}-conversion}
{{- end }}
{{- if and (include "answers" .) .Values.webhooks.clientCA }}
- {name: VALIDATING_WEBHOOK_CLIENT_CA, value: /webhook-client-ca/ca.crt}
- {name: CONVERSION_WEBHOOK_CLIENT_CA, value: /webhook-client-ca/ca.crt}
{{- with .Values.webhooks.clientNames }}
- {name: SHELL_OPERATOR_WEBHOOK_CLIENT_NAMES, value: {{ join "," . | quote }}}
{{- end }}
{{- end }}
{{- if include "answers" . }}
- {name: SHELL_OPERATOR_WEBHOOK_SECRET, value: {{ include "webhookSecret" . }}}
{{- end }}
{{- if .Values.http.enabled }}
- {name: SHELL_OPERATOR_HTTP_LISTEN_ADDRESS, value: 0.0.0.0}
- {name: SHELL_OPERATOR_HTTP_SERVER_CERT, value: /http-certs/tls.crt}
- {name: SHELL_OPERATOR_HTTP_SERVER_KEY, value: /http-certs/tls.key}
{{- end }}
{{- include "settings" . }}
{{- end -}}

{{/* Namespaces that webhooks do not review. */}}
{{- define "excluded" -}}
{{- $all := .Values.webhooks.excludeNamespaces }}
{{- if .Values.webhooks.excludeReleaseNamespace }}
{{- $all = append $all .Release.Namespace }}
{{- end }}
{{- $all | uniq | join "," }}
{{- end -}}

{{/* Half of the memory limit, in bytes; nothing without a limit. */}}
{{- define "goMemLimit" -}}
{{- .Values.goMemLimit | default (include "half" (dig "limits" "memory" "" (default (dict) .Values.resources))) }}
{{- end -}}

{{/* Half of a quantity, as a number; nothing for one without a value. */}}
{{- define "half" -}}
{{- $all := toString . }}
{{- if regexMatch "^[0-9.]+([kMGT]i?|Ki)?$" $all }}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- divf (mulf (regexFind "^[0-9.]+" $all | float64) (get $units (regexFind "[A-Za-z]*$" $all))) 2 | int64 }}
{{- end }}
{{- end -}}
