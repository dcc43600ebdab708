package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everything switches on all that can be switched on together.
const everything = `
replicas: 2
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullSecrets: [{name: registry}]}
hooks:
  files:
    start.sh: |
      #!/bin/sh
      echo '{configVersion: v1, onStartup: 1}'
    shop/watch.py: |
      #!/usr/bin/env python3
      print("quoted: \"{{ this is no template }}\"")
watchHooks: true
settings: {retry-max-delay: 1m}
args: [--hook-timeout, 5m]
env: [{name: FRUIT, value: apple}]
envFrom: [{secretRef: {name: fruits}}]
rbac:
  rules: [{apiGroups: [""], resources: [pods], verbs: [list, watch]}]
  namespaces: {kube-public: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]}
  clusterRules: [{nonResourceURLs: [/version], verbs: [get]}]
webhooks:
  validating: true
  mutating: true
  conversion: {enabled: true, crds: [crontabs.example.com]}
  clientCA: "-----BEGIN CERTIFICATE-----"
  clientNames: [kube-apiserver, api.example.com]
  excludeUsers: [emergency]
  excludeGroups: ["system:nodes"]
http: {enabled: true, secretName: http-tls}
metrics:
  prefix: shop_
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}], egress: [{ports: [{port: 443}]}]}
podAnnotations: {note: "yes"}
podLabels: {team: fruit}
shareProcessNamespace: true
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
  {weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
minReadySeconds: 5
lifecycle: {preStop: {sleep: {seconds: 1}}}
podDisruptionBudget: {unhealthyPodEvictionPolicy: AlwaysAllow}
global: {imagePullSecrets: [{name: mirror}]}
`

func TestDefault(t *testing.T) {
	o := rendered(t, "", "--no-hooks")
	if len(o) != 4 || o["Deployment/shop-shell-operator"] == nil || o["ServiceAccount/shop-shell-operator"] == nil {
		t.Errorf("not exactly a Deployment and a ServiceAccount with permission to write Events: %d objects", len(o))
	}
	o = rendered(t, "kubernetesEvents: false", "--no-hooks")
	if len(o) != 2 || !strings.Contains(o.at(t, "Deployment/shop-shell-operator", "spec", "template", "spec", "containers"),
		"name: SHELL_OPERATOR_KUBERNETES_EVENTS\n    value: \"false\"") {
		t.Errorf("not exactly a Deployment without Events and a ServiceAccount without permissions: %d objects", len(o))
	}
	if got := o.at(t, "Deployment/shop-shell-operator", "spec", "strategy"); got != "type: Recreate" {
		t.Errorf("two operators could run hooks concurrently: strategy %s", got)
	}
	// The image with a shell has no USER, so that a Dockerfile from it can run apk add.
	if got := o.at(t, "Deployment/shop-shell-operator", "spec", "template", "spec", "securityContext"); !strings.Contains(got,
		"runAsUser: 65532") || strings.Contains(read(t, "image/Dockerfile"), "\nUSER") {
		t.Errorf("the image with a shell is root for Dockerfiles and 65532 in the chart: %s", got)
	}
}

// TestShards: one Pod more than there are shards, which may be evicted one by one, and the permissions for Leases of any name.
func TestShards(t *testing.T) {
	const deployment = "Deployment/shop-shell-operator"
	for values, want := range map[string]string{"shards: 3": "4", "shards: 3\nreplicas: 3": "3", "shards: 3\nreplicas: 0": "0",
		"replicas: 2": "2"} {
		if got := rendered(t, values).at(t, deployment, "spec", "replicas"); got != want {
			t.Errorf("%q: %s replicas, want %s", values, got, want)
		}
	}
	o := rendered(t, "shards: 3")
	spec := o.at(t, deployment, "spec")
	for _, want := range []string{"name: SHELL_OPERATOR_SHARDS", `value: "3"`, "name: SHELL_OPERATOR_LEADER_ELECTION_LEASE",
		"type: RollingUpdate",
		"topologyKey: kubernetes.io/hostname"} {
		if !strings.Contains(spec, want) {
			t.Errorf("the Deployment lacks %q", want)
		}
	}
	if strings.Contains(spec, "name: SHELL_OPERATOR_LEADER_ELECTION\n") {
		t.Error("leader election is enabled, too")
	}
	if o["PodDisruptionBudget/shop-shell-operator"] == nil {
		t.Error("there is no PodDisruptionBudget")
	}
	if got := o.at(t, "Role/shop-shell-operator", "rules"); !strings.Contains(got, "- delete") || strings.Contains(got, "resourceNames") {
		t.Errorf("the rules are\n%s", got)
	}
}

// TestMetadata sets labels and annotations of everything, of a kind, and of the Pod. Selectors stay as they are.
func TestMetadata(t *testing.T) {
	before := rendered(t, everything)
	o := rendered(t, everything+`
commonLabels: {team: shop, app.kubernetes.io/name: other}
commonAnnotations: {cost: "7"}
labels: {Service: {mesh: "on"}}
annotations: {Deployment: {reload: "yes"}}
serviceAccount: {annotations: {role: arn}}
`)
	for key, object := range o {
		if l, a := object.GetLabels(), object.GetAnnotations(); l["team"] != "shop" || a["cost"] != "7" ||
			l["app.kubernetes.io/name"] == "other" {
			t.Errorf("%s has the labels %v and annotations %v", key, l, a)
		}
		if object.GetKind() == "Service" && object.GetLabels()["mesh"] != "on" {
			t.Errorf("%s has not the label of its kind", key)
		}
		if object.GetKind() == "Service" && o.at(t, key, "spec", "selector") != before.at(t, key, "spec", "selector") {
			t.Errorf("%s selects other Pods", key)
		}
	}
	const deployment = "Deployment/shop-shell-operator"
	if got := o[deployment].GetAnnotations(); got["reload"] != "yes" {
		t.Errorf("the Deployment has the annotations %v", got)
	}
	if got := o["ServiceAccount/shop-shell-operator"].GetAnnotations(); got["role"] != "arn" {
		t.Errorf("the ServiceAccount has the annotations %v", got)
	}
	// The Pod's own labels win; those of the selector always do.
	if got, want := o.at(t, deployment, "spec", "template", "metadata", "labels"),
		"app.kubernetes.io/instance: shop\napp.kubernetes.io/name: shell-operator\nteam: fruit"; got != want {
		t.Errorf("the Pod has the labels\n%s\nwant\n%s", got, want)
	}
}

// TestPod compares what values make of the Pod.
func TestPod(t *testing.T) {
	for values, want := range map[string][]string{
		"":                                    {"name: GOMEMLIMIT\n    value: \"536870912\"", "memory: 1Gi", "timeoutSeconds: 10"},
		"resources: {limits: {memory: 1.5G}}": {"name: GOMEMLIMIT\n    value: \"750000000\""},
		"goMemLimit: 100MiB":                  {"value: 100MiB"},
		"spoolLimit: 1000000000":              {"name: SHELL_OPERATOR_SPOOL_LIMIT\n", `value: "1000000000"`},
		"tmpSizeLimit: 4Gi":                   {`value: "2147483648"`},
		"watchHooks: true":                    {"name: SHELL_OPERATOR_WATCH_HOOKS\n    value: \"true\""},
		"livenessProbe: {periodSeconds: 7}":   {"periodSeconds: 7\n    timeoutSeconds: 10"},
		"settings: {listen-port: 9200}":       {"containerPort: 9200\n    name: metrics", "mountPath: /etc/shell-operator"},
		"hostNetwork: true\nwebhooks: {mutating: true}\nsettings: {validating-webhook-listen-port: 10250}": {"hostNetwork: true",
			"dnsPolicy: ClusterFirstWithHostNet", "containerPort: 10250\n    name: admission"},
		"hostUsers: false": {"hostUsers: false"},
		"dnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.1]}\nhostAliases: [{ip: 10.0.0.2, hostnames: [db]}]": {"dnsPolicy: None",
			"- 10.0.0.1", "- db"},
		"webhooks: {validating: true}": {
			"value: kube-system,kube-node-lease,kube-public,shop"},
		"webhooks: {validating: true, excludeReleaseNamespace: false}": {
			"value: kube-system,kube-node-lease,kube-public\n"},
		"image: {tag: v1.2.3, variant: jq1.8}": {
			"image: ghcr.io/shell-operator/shell-operator:v1.2.3-jq1.8\n"},
		"extraContainers: [{name: more, image: more}]\ninitContainers: [{name: first, image: first}]": {"image: more", "image: first"},
	} {
		spec := rendered(t, values).at(t, "Deployment/shop-shell-operator", "spec", "template", "spec")
		for _, w := range want {
			if !strings.Contains(strings.ReplaceAll(spec, "\n  ", "\n"), w) && !strings.Contains(spec, w) {
				t.Errorf("%q makes a Pod without %q:\n%s", values, w, spec)
			}
		}
	}
	if spec := rendered(t, "resources: null").at(t, "Deployment/shop-shell-operator", "spec", "template", "spec"); strings.Contains(spec,
		"GOMEMLIMIT") {
		t.Error("GOMEMLIMIT without a memory limit")
	}
	if got := rendered(t, "revisionHistoryLimit: 3").at(t, "Deployment/shop-shell-operator", "spec", "revisionHistoryLimit"); got != "3" {
		t.Errorf("revisionHistoryLimit is %s", got)
	}
	extra := rendered(t,
		"extraObjects: [{apiVersion: v1, kind: Secret, metadata: {name: a}}, 'kind: ConfigMap\n\napiVersion: v1\n\nmetadata: {name: \"{{ "+
			".Release.Name }}-b\"}']")
	if extra["Secret/a"] == nil || extra["ConfigMap/shop-b"] == nil {
		t.Error("the objects of the user are missing")
	}
}

// TestToken: the ServiceAccount's token is in the operator's container only, at its usual path.
func TestToken(t *testing.T) {
	o := rendered(t, `
hooks: {git: {repository: "https://git.example.com/hooks.git"}}
extraContainers: [{name: more, image: more}]
initContainers: [{name: first, image: first}]
`)
	spec := o["Deployment/shop-shell-operator"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	if spec["automountServiceAccountToken"] != false {
		t.Error("every container has the token")
	}
	var with []string
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range spec[key].([]any) {
			container := c.(map[string]any)
			mounts, _ := container["volumeMounts"].([]any)
			for _, m := range mounts {
				if m.(map[string]any)["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount" {
					with = append(with, container["name"].(string))
				}
			}
		}
	}
	if !slices.Equal(with, []string{"operator"}) {
		t.Errorf("%q have the token, want the operator", with)
	}
}

// TestClientCA: the CA of clients of webhooks is a file, and its change replaces the Pods.
func TestClientCA(t *testing.T) {
	const one = "webhooks: {validating: true, clientCA: '-----BEGIN CERTIFICATE-----one', clientNames: [a, b]}"
	o := rendered(t, one)
	if got := o.at(t, "ConfigMap/shop-shell-operator-webhook-client-ca", "data", "ca.crt"); !strings.Contains(got, "one") {
		t.Errorf("the ConfigMap has %q", got)
	}
	pod := o.at(t, "Deployment/shop-shell-operator", "spec", "template")
	for _, want := range []string{"name: VALIDATING_WEBHOOK_CLIENT_CA\n", "value: /webhook-client-ca/ca.crt", "value: a,b",
		"mountPath: /webhook-client-ca"} {
		if !strings.Contains(pod, want) {
			t.Errorf("the Pod lacks %q:\n%s", want, pod)
		}
	}
	if pod == rendered(t, strings.Replace(one, "one", "two", 1)).at(t, "Deployment/shop-shell-operator", "spec", "template") {
		t.Error("with another CA the Pod is the same")
	}
	if o := rendered(t, "webhooks: {clientCA: '-----BEGIN CERTIFICATE-----'}"); o["ConfigMap/shop-shell-operator-webhook-client-ca"] != nil {
		t.Error("without webhooks there is a CA of their clients")
	}
}

// TestWebhookConfigurations: the chart creates them without webhooks, which the operator writes, and only those that are needed.
func TestWebhookConfigurations(t *testing.T) {
	for values, want := range map[string][]string{
		"webhooks: {validating: true}":                                   {"Validating"},
		"webhooks: {mutating: true}":                                     {"Mutating"},
		"webhooks: {validating: true, mutating: true}":                   {"Validating", "Mutating"},
		"webhooks: {conversion: {enabled: true, crds: [a.example.com]}}": {},
	} {
		o := rendered(t, values)
		for _, kind := range []string{"Validating", "Mutating"} {
			c := o[kind+"WebhookConfiguration/shop-shop-shell-operator-admission-hooks"]
			if (c != nil) != slices.Contains(want, kind) {
				t.Errorf("%s: %s is %v", values, kind, c)
			}
			if c != nil && (len(c.Object) != 3 || c.GetLabels()["app.kubernetes.io/managed-by"] != "Helm") {
				t.Errorf("%s: %v", values, c.Object)
			}
		}
		if o["Job/shop-shell-operator-uninstall"] != nil {
			t.Errorf("%s: Helm removes the configurations, and needs no Job for that", values)
		}
	}
}

// TestReplicas: the chart leaves the number of replicas to an autoscaler or another client.
func TestReplicas(t *testing.T) {
	if got := rendered(t, "replicas: null")["Deployment/shop-shell-operator"].Object["spec"].(map[string]any)["replicas"]; got != nil {
		t.Errorf("replicas is %v, want none", got)
	}
}

// TestNotes: what a combination of values does not do is said at the installation.
func TestNotes(t *testing.T) {
	for values, want := range map[string]string{
		"networkPolicy: {enabled: true}\nhostNetwork: true": "The NetworkPolicy has no effect",
		"webhooks: {validating: true}":                      "with failurePolicy Fail the\nAPI server rejects",
		"":                                                  "image.variant=jq1.8",
	} {
		if notes, _ := render(t, "shop", values, "--notes"); !strings.Contains(notes, want) {
			t.Errorf("the notes of %q lack %q:\n%s", values, want, notes)
		}
	}
	if notes, _ := render(t, "shop", "image: {variant: jq1.8}\nreplicas: 2", "--notes"); strings.Contains(notes, "jq 1.7.1") ||
		strings.Contains(notes, "no effect") {
		t.Errorf("notes about what is not so:\n%s", notes)
	}
}

// TestRights compares the rules of everything that can be switched on.
func TestRights(t *testing.T) {
	const own, cluster = "Role/shop-shell-operator", "ClusterRole/shop-shop-shell-operator"
	for _, c := range []struct {
		values, own, cluster string
	}{
		{"replicas: 2", `
- {apiGroups: [coordination.k8s.io], resourceNames: [shop-shell-operator], resources: [leases], verbs: [get, watch, update]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, list]}`, ""},
		{"kubernetesEvents: true", `
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}`, ""},
		{"webhooks: {validating: true}", `
- {apiGroups: [""], resourceNames: [shop-shell-operator-webhook], resources: [secrets], verbs: [get, watch, patch]}`, `
- {apiGroups: [admissionregistration.k8s.io],
  resourceNames: [shop-shop-shell-operator-admission-hooks], resources: [validatingwebhookconfigurations], verbs: [list, watch, update]}`},
		{"webhooks: {mutating: true, certificates: {from: Secret, secretName: mine}}", `
- {apiGroups: [""], resourceNames: [shop-shell-operator-webhook-paths], resources: [secrets], verbs: [get, watch, patch]}`, `
- {apiGroups: [admissionregistration.k8s.io],
  resourceNames: [shop-shop-shell-operator-admission-hooks], resources: [mutatingwebhookconfigurations], verbs: [list, watch, update]}`},
		{"webhooks: {conversion: {enabled: true, crds: [a.example.com]}, certificates: {from: CertManager}}", `
- {apiGroups: [""], resourceNames: [shop-shell-operator-webhook-paths], resources: [secrets], verbs: [get, watch, patch]}`, `
- {apiGroups: [apiextensions.k8s.io], resourceNames: [a.example.com], resources: [customresourcedefinitions],
  verbs: [list, watch, patch]}`},
		{"finalizers: {enabled: true}", `
- {apiGroups: [""], resourceNames: [shell-operator-finalizers], resources: [configmaps], verbs: [get, watch, patch, delete]}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}`, ""},
		{"http: {enabled: true, secretName: tls}", "", `
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}`},
		{"rbac: {rules: [{apiGroups: [apps], resources: [deployments], verbs: [patch]}], clusterRules: [{apiGroups: [''], resources: [nodes], " +
			"verbs: [list]}]}", `
- {apiGroups: [apps], resources: [deployments], verbs: [patch]}`, `
- {apiGroups: [""], resources: [nodes], verbs: [list]}`},
		{"rbac: {create: false, rules: [{apiGroups: [apps], resources: [deployments], verbs: [patch]}]}\nreplicas: 2", "", ""},
	} {
		values := c.values
		if !strings.Contains(values, "kubernetesEvents") {
			values += "\nkubernetesEvents: false"
		}
		o := rendered(t, values)
		for key, want := range map[string]string{own: c.own, cluster: c.cluster} {
			switch {
			case want == "" && o[key] != nil:
				t.Errorf("%s: the %s is not needed\n%s", c.values, key, o.at(t, key, "rules"))
			case want != "":
				if got := o.at(t, key, "rules"); got != normal(t, want) {
					t.Errorf("%s: %s has the rules\n%s\nwant\n%s", c.values, key, got, normal(t, want))
				}
			}
		}
	}

	o := rendered(t, "rbac: {namespaces: {team-a: [{apiGroups: [''], resources: [pods], verbs: [list]}]}}")
	if got := o.at(t, "Role/team-a/shop-shop-shell-operator", "rules"); !strings.Contains(got, "- pods") {
		t.Errorf("the Role in another namespace has the rules\n%s", got)
	}
	if got := o.at(t, "RoleBinding/shop-shop-shell-operator", "subjects"); !strings.Contains(got, "namespace: shop") {
		t.Errorf("its binding is for\n%s", got)
	}
}

func TestHooks(t *testing.T) {
	const deployment = "Deployment/shop-shell-operator"
	o := rendered(t, "hooks: {files: {a.sh: \"#!/bin/sh\\n\", shop/b.sh: \"#!/bin/bash\\n\"}}")
	if got, want := o.at(t, "ConfigMap/shop-shell-operator-hooks", "data"),
		normal(t, "{a.sh: \"#!/bin/sh\\n\", shop--b.sh: \"#!/bin/bash\\n\"}"); got != want {
		t.Errorf("the ConfigMap has\n%s\nwant\n%s", got, want)
	}
	volumes := o.at(t, deployment, "spec", "template", "spec", "volumes")
	for _, want := range []string{"defaultMode: 493", "key: shop--b.sh", "path: shop/b.sh"} {
		if !strings.Contains(volumes, want) {
			t.Errorf("no %q in the volumes\n%s", want, volumes)
		}
	}
	sum := o.at(t, deployment, "spec", "template", "metadata", "annotations")
	changed := rendered(t, "hooks: {files: {a.sh: \"#!/bin/sh\\n\", shop/b.sh: \"#!/bin/sh\\n\"}}")
	if other := changed.at(t, deployment, "spec", "template", "metadata", "annotations"); other == sum {
		t.Error("another hook makes no other Pod")
	}

	o = rendered(t, "hooks: {configMap: mine}")
	if volumes := o.at(t, deployment, "spec", "template", "spec", "volumes"); !strings.Contains(volumes, "defaultMode: 493\n    name: mine") {
		t.Errorf("the ConfigMap of the user is not mounted:\n%s", volumes)
	}

	// With watchHooks the operator itself reloads hooks.
	o = rendered(t, "watchHooks: true\nhooks: {files: {a.sh: x}}")
	if pod := o.at(t, deployment, "spec", "template", "metadata"); strings.Contains(pod, "checksum") {
		t.Errorf("another hook makes another Pod, though hooks are reloaded:\n%s", pod)
	}

	for values, want := range map[string][]string{
		"hooks: {configMaps: [a, b.c]}": {"mountPath: /hooks/a", "mountPath: /hooks/b.c", "name: b.c", "defaultMode: 493"},
		"hooks: {image: {reference: 'registry.example.com/hooks:v1', path: shop/}}": {
			"reference: registry.example.com/hooks:v1", "pullPolicy: IfNotPresent", "subPath: shop\n", "mountPath: /hooks\n",
			"SHELL_OPERATOR_WATCH_HOOKS",
		},
		"hooks: {git: {repository: 'https://example.com/hooks.git', ref: v1, path: /shop, secretName: key, args: [--username=git]}}": {
			"--repo=https://example.com/hooks.git", "--ref=v1", "--username=git", "restartPolicy: Always", "secretName: key", "runAsUser: 65533",
			"value: /git/current/shop\n", "SHELL_OPERATOR_HOOKS_DIR", "SHELL_OPERATOR_WATCH_HOOKS", "defaultMode: 288", "mountPath: /etc/git-secret",
		},
	} {
		spec := rendered(t, values).at(t, deployment, "spec", "template", "spec")
		for _, w := range want {
			if !strings.Contains(spec, w) {
				t.Errorf("%s: no %q in\n%s", values, w, spec)
			}
		}
	}
}

func TestEverything(t *testing.T) {
	o := rendered(t, everything)
	for key, want := range map[string]string{
		"PodDisruptionBudget/shop-shell-operator": "maxUnavailable: 1",
		"NetworkPolicy/shop-shell-operator":       "port: conversion",
		"ServiceMonitor/shop-shell-operator":      "honorLabels: false",
		"PrometheusRule/shop-shell-operator":      "alert: ShellOperatorHookFails",
		"Deployment/shop-shell-operator":          "image: ghcr.io/shell-operator/shell-operator@sha256:0000",
		"Service/shop-shell-operator-admission":   "targetPort: admission",
		"Service/shop-shell-operator-conversion":  "targetPort: conversion",
		"Service/shop-shell-operator-http":        "targetPort: http",
		"Service/shop-shell-operator-metrics":     "port: 9115",
	} {
		if spec := o.at(t, key, "spec"); !strings.Contains(spec, want) {
			t.Errorf("%s has no %q:\n%s", key, want, spec)
		}
	}
	for _, spec := range []string{
		o.at(t, "PrometheusRule/shop-shell-operator", "spec"), o.at(t, "ConfigMap/shop-shell-operator-dashboard", "data"),
	} {
		if strings.Contains(spec, "shell_operator_") || !strings.Contains(spec, "shop_hook_run_errors_total") {
			t.Errorf("the prefix of metrics is not the one that was set:\n%.500s", spec)
		}
	}
	if !strings.Contains(o.at(t, "ConfigMap/shop-shell-operator-hooks", "data"), "{{ this is no template }}") {
		t.Error("a hook was taken for a template")
	}
}

// TestVariables finds variables of the chart that the program does not know.
func TestVariables(t *testing.T) {
	settings, err := os.ReadFile("../docs/reference/command-line.md") // generated from them
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"GOMEMLIMIT", "POD_NAME", "POD_UID", "POD_NAMESPACE", "HOME", "FRUIT"}
	for _, m := range regexp.MustCompile("(?m)^\\| `--[a-z0-9-]+` \\| `(\\w+)` \\|").FindAllStringSubmatch(string(settings), -1) {
		known = append(known, m[1])
	}
	manifest, problem := render(t, "shop", everything)
	if problem != "" {
		t.Fatal(problem)
	}
	for _, m := range regexp.MustCompile(`- (?:\{name: |name: )([A-Z_]+)`).FindAllStringSubmatch(manifest, -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("the program knows no variable %s", m[1])
		}
	}
}

// TestRefusals checks that invalid values are rejected with an error that names the value and the fix.
func TestRefusals(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: two":          "at '/replicas': got string, want null or integer",
		"replica: 2":             "additional properties 'replica' not allowed",
		"image: {tagg: v1}":      "at '/image': additional properties 'tagg' not allowed",
		"image: {digest: v1}":    "at '/image/digest': 'v1' does not match pattern",
		"shards: 65":             "at '/shards': maximum: got 65, want 64",
		"shards: 4\nreplicas: 3": "replicas is 3, and each of the 4 shards needs a Pod",
		"shards: 4\nleaderElection: {mode: Always}":         "leaderElection.mode is Always, and shards are set",
		"settings: {shards: 3}":                             "settings.shards has no effect in this chart: set shards",
		"leaderElection: {mode: Sometimes}":                 "at '/leaderElection/mode': value must be one of 'Auto', 'Always', 'Never'",
		"rbac: {rules: [{resource: [pods], verbs: [get]}]}": "at '/rbac/rules/0': additional properties 'resource' not allowed",
		"rbac: {clusterRules: [{resources: [pods]}]}":       "at '/rbac/clusterRules/0': missing property 'verbs'",
		"rbac: {namespaces: {Team_A: []}}":                  "'Team_A' does not match pattern",
		"env: {FRUIT: apple}":                               "at '/env': got object, want array",
		"env: [{name: PORT, value: 80}]":                    "at '/env/0/value': got number, want string",
		"hooks: {files: {../../etc/passwd: x}}":             "'../../etc/passwd' does not match pattern",
		"hooks: {files: {a.sh: x}, configMap: mine}": "hooks.files and hooks.configMap are both set, " +
			"and both would be /hooks: choose one",
		"hooks: {image: {reference: a}, git: {repository: b}}":       "hooks.image and hooks.git are both set",
		"hooks: {git: {repository: b, path: ../..}}":                 "at '/hooks/git/path': '../..' does not match pattern",
		"hooks: {configMapLabels: {a: b}}":                           "Helm finds no ConfigMap with these labels in namespace shop",
		"settings: {hook-timeoutt: 5m}":                              "at '/settings': additional properties 'hook-timeoutt' not allowed",
		"settings: {hook-timeout: 5}":                                "at '/settings/hook-timeout': got number, want string",
		"settings: {watch-hooks: true}":                              "settings.watch-hooks has no effect in this chart: set watchHooks",
		"livenessProbe: {exec: {}}":                                  "at '/livenessProbe': additional properties 'exec' not allowed",
		"annotations: {Deploymnt: {}}":                               "invalid propertyName 'Deploymnt'",
		"webhooks: {excludeNamespaces: [A]}":                         "at '/webhooks/excludeNamespaces/0': 'A' does not match pattern",
		"webhooks: {conversion: {enabled: true}}":                    "webhooks.conversion.crds is empty: name the CRDs",
		"webhooks: {validating: true, certificates: {from: Secret}}": "webhooks.certificates.secretName is empty: name the Secret",
		"http: {enabled: true}":                                      "http.secretName is empty: name the Secret",
		"serviceAccount: {create: false}":                            "serviceAccount.name is empty",
		"log: {type: xml}":                                           "at '/log/type': value must be one of 'json', 'text', 'color'",
	} {
		if _, problem := render(t, "shop", values); !strings.Contains(problem, want) {
			t.Errorf("%s: the error is\n%s\nwant %q", values, problem, want)
		}
	}
}

// TestGuide renders the values that the guide shows.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/install-with-helm.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if o := rendered(t, b[1]); o["Deployment/shop-shell-operator"] == nil {
			t.Errorf("no Deployment with\n%s", b[1])
		}
	}
	if len(blocks) == 0 {
		t.Error("the guide shows no values")
	}
}
