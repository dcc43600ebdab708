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
args: [--hook-timeout, 5m]
env: [{name: FRUIT, value: apple}]
envFrom: [{secretRef: {name: fruits}}]
rbac:
  rules: [{apiGroups: [""], resources: [pods], verbs: [list, watch]}]
  namespaces: {kube-public: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]}
  clusterRules: [{nonResourceURLs: [/version], verbs: [get]}]
webhooks: {validating: true, mutating: true, conversion: {enabled: true, crds: [crontabs.example.com]}}
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
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
`

func TestDefault(t *testing.T) {
	o := rendered(t, "")
	if len(o) != 4 || o["Deployment/shop-shell-operator"] == nil || o["ServiceAccount/shop-shell-operator"] == nil {
		t.Errorf("not exactly a Deployment and a ServiceAccount with permission to write Events: %d objects", len(o))
	}
	o = rendered(t, "kubernetesEvents: false")
	if len(o) != 2 || !strings.Contains(o.at(t, "Deployment/shop-shell-operator", "spec", "template", "spec", "containers"), "name: SHELL_OPERATOR_KUBERNETES_EVENTS\n    value: \"false\"") {
		t.Errorf("not exactly a Deployment without Events and a ServiceAccount without permissions: %d objects", len(o))
	}
	if got := o.at(t, "Deployment/shop-shell-operator", "spec", "strategy"); got != "type: Recreate" {
		t.Errorf("two operators could run hooks concurrently: strategy %s", got)
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
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}`, ""},
		{"kubernetesEvents: true", `
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}`, ""},
		{"webhooks: {validating: true}", `
- {apiGroups: [""], resourceNames: [shop-shell-operator-webhook], resources: [secrets], verbs: [get, watch, patch]}`, `
- {apiGroups: [admissionregistration.k8s.io], resourceNames: [shop-shop-shell-operator-hooks], resources: [validatingwebhookconfigurations], verbs: [list, watch, update, delete]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [create]}`},
		{"webhooks: {mutating: true, certificates: {from: Secret, secretName: mine}}", "", `
- {apiGroups: [admissionregistration.k8s.io], resourceNames: [shop-shop-shell-operator-hooks], resources: [mutatingwebhookconfigurations], verbs: [list, watch, update, delete]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations], verbs: [create]}`},
		{"webhooks: {conversion: {enabled: true, crds: [a.example.com]}, certificates: {from: CertManager}}", "", `
- {apiGroups: [apiextensions.k8s.io], resourceNames: [a.example.com], resources: [customresourcedefinitions], verbs: [list, watch, patch]}`},
		{"http: {enabled: true, secretName: tls}", "", `
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}`},
		{"rbac: {rules: [{apiGroups: [apps], resources: [deployments], verbs: [patch]}], clusterRules: [{apiGroups: [''], resources: [nodes], verbs: [list]}]}", `
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
	if got, want := o.at(t, "ConfigMap/shop-shell-operator-hooks", "data"), normal(t, "{a.sh: \"#!/bin/sh\\n\", shop--b.sh: \"#!/bin/bash\\n\"}"); got != want {
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
}

func TestEverything(t *testing.T) {
	o := rendered(t, everything)
	for key, want := range map[string]string{
		"PodDisruptionBudget/shop-shell-operator": "maxUnavailable: 1",
		"NetworkPolicy/shop-shell-operator":       "port: conversion",
		"ServiceMonitor/shop-shell-operator":      "honorLabels: true",
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
	settings, err := os.ReadFile("../cmd/shell-operator/settings.go")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "HOME", "FRUIT"}
	for _, m := range regexp.MustCompile(`env: "(\w+)"`).FindAllStringSubmatch(string(settings), -1) {
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
		"replicas: two":                     "at '/replicas': got string, want integer",
		"replica: 2":                        "additional properties 'replica' not allowed",
		"image: {tagg: v1}":                 "at '/image': additional properties 'tagg' not allowed",
		"image: {digest: v1}":               "at '/image/digest': 'v1' does not match pattern",
		"leaderElection: {mode: Sometimes}": "at '/leaderElection/mode': value must be one of 'Auto', 'Always', 'Never'",
		"rbac: {rules: [{resource: [pods], verbs: [get]}]}":          "at '/rbac/rules/0': additional properties 'resource' not allowed",
		"rbac: {clusterRules: [{resources: [pods]}]}":                "at '/rbac/clusterRules/0': missing property 'verbs'",
		"rbac: {namespaces: {Team_A: []}}":                           "'Team_A' does not match pattern",
		"env: {FRUIT: apple}":                                        "at '/env': got object, want array",
		"env: [{name: PORT, value: 80}]":                             "at '/env/0/value': got number, want string",
		"hooks: {files: {../../etc/passwd: x}}":                      "'../../etc/passwd' does not match pattern",
		"hooks: {files: {a.sh: x}, configMap: mine}":                 "hooks.files and hooks.configMap are both set",
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
