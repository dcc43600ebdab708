{{/* The one source of hooks that is set: files, configMap, configMaps, image, git, or nothing. */}}
{{- define "source" -}}
{{- $set := list }}
{{- if .Values.hooks.files }}{{ $set = append $set "files" }}{{ end }}
{{- if .Values.hooks.configMap }}{{ $set = append $set "configMap" }}{{ end }}
{{- if or .Values.hooks.configMaps .Values.hooks.configMapLabels }}{{ $set = append $set "configMaps" }}{{ end }}
{{- if .Values.hooks.image.reference }}{{ $set = append $set "image" }}{{ end }}
{{- if .Values.hooks.git.repository }}{{ $set = append $set "git" }}{{ end }}
{{- if gt (len $set) 1 }}
{{- fail (printf "hooks.%s are both set, and both would be /hooks: choose one" (slice $set 0 2 | join " and hooks.")) }}
{{- end }}
{{- join "" $set }}
{{- end -}}

{{/* The names of several ConfigMaps, as {"names": […]}. */}}
{{- define "configMaps" -}}
{{- $names := .Values.hooks.configMaps }}
{{- with .Values.hooks.configMapLabels }}
{{- $wanted := . }}
{{- $found := list }}
{{- range (lookup "v1" "ConfigMap" $.Release.Namespace "").items }}
{{- $labels := default (dict) .metadata.labels }}
{{- $all := true }}
{{- range $key, $value := $wanted }}
{{- if ne (get $labels $key) $value }}{{ $all = false }}{{ end }}
{{- end }}
{{- if $all }}{{ $found = append $found .metadata.name }}{{ end }}
{{- end }}
{{- if not $found }}
{{- fail (printf "hooks.configMapLabels: Helm finds no ConfigMap with these labels in namespace %s: create one first. Where templates are rendered without a cluster, as in Argo CD, name the ConfigMaps in hooks.configMaps" $.Release.Namespace) }}
{{- end }}
{{- $names = concat $names $found | uniq | sortAlpha }}
{{- end }}
{{- dict "names" $names | toJson }}
{{- end -}}

{{/* Hooks of an image volume run from a copy, because container runtimes may mount it with noexec; git-sync changes files at any time. */}}
{{- define "watches" -}}
{{- if or .Values.watchHooks (has (include "source" .) (list "image" "git")) }}true{{ end -}}
{{- end -}}

{{/* The directory of hooks of git: git-sync swaps the link current. */}}
{{- define "gitDirectory" -}}
{{ printf "/git/current/%s" (trimAll "/" .Values.hooks.git.path) | trimSuffix "/" }}
{{- end -}}

{{- define "hookMounts" -}}
{{- $source := include "source" . }}
{{- if eq $source "git" }}
- {name: git, mountPath: /git, readOnly: true}
{{- else if eq $source "image" }}
- name: hooks
  mountPath: /hooks
  readOnly: true
  {{- with trimAll "/" .Values.hooks.image.path }}
  subPath: {{ . }}
  {{- end }}
{{- else if eq $source "configMaps" }}
{{- range $i, $name := (fromJson (include "configMaps" .)).names }}
- {name: hooks-{{ $i }}, mountPath: /hooks/{{ $name }}, readOnly: true}
{{- end }}
{{- else if $source }}
- {name: hooks, mountPath: /hooks, readOnly: true}
{{- end }}
{{- end -}}

{{- define "hookVolumes" -}}
{{- $source := include "source" . }}
{{- if eq $source "files" }}
- name: hooks
  configMap:
    name: {{ include "name" . }}-hooks
    defaultMode: 0755 # hooks are executables
    items:
      {{- range $path, $content := .Values.hooks.files }}
      - {key: {{ include "hookKey" $path | quote }}, path: {{ $path | quote }}}
      {{- end }}
{{- else if eq $source "configMap" }}
- name: hooks
  configMap:
    name: {{ .Values.hooks.configMap }}
    defaultMode: 0755 # hooks are executables
{{- else if eq $source "configMaps" }}
{{- range $i, $name := (fromJson (include "configMaps" .)).names }}
- name: hooks-{{ $i }}
  configMap:
    name: {{ $name }}
    defaultMode: 0755 # hooks are executables
{{- end }}
{{- else if eq $source "image" }}
- name: hooks
  image:
    reference: {{ .Values.hooks.image.reference }}
    pullPolicy: {{ .Values.hooks.image.pullPolicy }}
{{- else if eq $source "git" }}
- name: git
  emptyDir: {}
{{- with .Values.hooks.git.secretName }}
- name: git-secret
  secret:
    secretName: {{ . }}
    defaultMode: 0440 # for fsGroup only
{{- end }}
{{- end }}
{{- end -}}

{{/* A sidecar in the sense of Kubernetes: the operator starts after its startup probe, so after the first fetch. */}}
{{- define "gitSync" -}}
{{- if semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version }}
{{- fail "hooks.git needs Kubernetes 1.29, whose Pods have sidecars" }}
{{- end }}
{{- with .Values.hooks.git -}}
- name: git-sync
  image: {{ include "mirrored" (dict "at" $ "image" .image) }}
  restartPolicy: Always
  args:
    - --repo={{ .repository }}
    - --ref={{ .ref }}
    - --period={{ .period }}
    - --root=/git
    - --link=current
    - --max-failures=-1
    - --http-bind=:9116
    {{- range .args }}
    - {{ . | quote }}
    {{- end }}
  ports:
    - {name: git-sync, containerPort: 9116}
  # It succeeds after the first fetch.
  startupProbe:
    httpGet: {path: /, port: git-sync}
    periodSeconds: 2
    failureThreshold: 150
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- toYaml $.Values.securityContext | nindent 4 }}
    {{- if $.Values.podSecurityContext.runAsUser }}
    runAsUser: 65533 # SSH needs a user of /etc/passwd, where the image has this one
    {{- end }}
  volumeMounts:
    - {name: git, mountPath: /git}
    - {name: tmp, mountPath: /tmp, subPath: git-sync}
    {{- if .secretName }}
    - {name: git-secret, mountPath: /etc/git-secret, readOnly: true}
    {{- end }}
{{- end }}
{{- end -}}
