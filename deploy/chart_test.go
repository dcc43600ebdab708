package deploy

import (
	_ "embed"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everything switches on all that can be switched on together.
//
//go:embed testdata/everything.yaml
var everything string

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
