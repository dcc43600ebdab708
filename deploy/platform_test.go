package deploy

import (
	"strings"
	"testing"
)

// TestPlatform sets what platforms require: mirrors, policies of Pods and evictions, monitors, excluded clients.
func TestPlatform(t *testing.T) {
	const deployment, job = "Deployment/shop-shell-operator", "Job/shop-shell-operator-uninstall"
	for _, row := range []struct{ values, object, want string }{
		{"global: {imageRegistry: mirror.example.com/ghcr}", deployment, "image: mirror.example.com/ghcr/shell-operator/shell-operator:latest"},
		{"global: {imageRegistry: 'mirror:5000/'}\nimage: {repository: team/operator, digest: 'sha256:" + strings.Repeat("0", 64) + "'}",
			deployment, "image: mirror:5000/team/operator@sha256:0000"},
		{"global: {imageRegistry: mirror.example.com}\nhooks: {git: {repository: 'https://example.com/hooks.git'}}", deployment,
			"image: mirror.example.com/git-sync/git-sync:v"},
		{"global: {imagePullSecrets: [{name: mirror}]}\nimage: {pullSecrets: [{name: own}]}", deployment, "- name: own\n- name: mirror"},
		{"global: {imageRegistry: mirror.example.com}\nfinalizers: {enabled: true}", job, "image: mirror.example.com/shell-operator/"},
		{"replicas: 3\npodDisruptionBudget: {minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow}",
			"PodDisruptionBudget/shop-shell-operator", "minAvailable: 2\nselector:"},
		{"replicas: 3\npodDisruptionBudget: {unhealthyPodEvictionPolicy: AlwaysAllow}", "PodDisruptionBudget/shop-shell-operator",
			"unhealthyPodEvictionPolicy: AlwaysAllow"},
		{"minReadySeconds: 10\nruntimeClassName: gvisor\nlifecycle: {preStop: {sleep: {seconds: 5}}}", deployment, "minReadySeconds: 10"},
		{"runtimeClassName: gvisor", deployment, "runtimeClassName: gvisor"},
		{"lifecycle: {preStop: {sleep: {seconds: 5}}}", deployment, "lifecycle:\npreStop:\nsleep:\nseconds: 5"},
		{"finalizers: {enabled: true}\nuninstallJob: {ttlSecondsAfterFinished: 0, resources: {limits: {memory: 1Gi}}}", job,
			"ttlSecondsAfterFinished: 0"},
		{"finalizers: {enabled: true}\nuninstallJob: {resources: {limits: {memory: 1Gi}}}", job, "memory: 1Gi"},
		{"finalizers: {enabled: true}\ntolerations: [{key: a}]\nuninstallJob: {tolerations: [{key: b}]}", job, "- key: a\n- key: b"},
		{"webhooks: {validating: true, excludeUsers: [admin, 'system:serviceaccount:a:b']}", deployment,
			"name: SHELL_OPERATOR_WEBHOOK_EXCLUDE_USERS\nvalue: admin,system:serviceaccount:a:b"},
		{"webhooks: {mutating: true, excludeGroups: ['system:nodes']}", deployment,
			"name: SHELL_OPERATOR_WEBHOOK_EXCLUDE_GROUPS\nvalue: system:nodes"},
		{"metrics: {podMonitor: {enabled: true, interval: 7s}}", "PodMonitor/shop-shell-operator",
			"podMetricsEndpoints:\n- interval: 7s\nport: metrics\n- honorLabels: false\ninterval: 7s\npath: /metrics/hooks\nport: metrics"},
		{"metrics: {podMonitor: {enabled: true, namespace: monitoring}}", "PodMonitor/monitoring/shop-shell-operator",
			"namespaceSelector:\nmatchNames:\n- shop"},
		{"metrics: {serviceMonitor: {enabled: true, namespace: monitoring}}", "ServiceMonitor/monitoring/shop-shell-operator",
			"app.kubernetes.io/component: metrics"},
		{"metrics: {drop: ['a_.*', b], serviceMonitor: {enabled: true, metricRelabelings: [{action: labeldrop, regex: url}]}}",
			"ServiceMonitor/shop-shell-operator",
			"metricRelabelings:\n- action: drop\nregex: a_.*|b\nsourceLabels:\n- __name__\n- action: labeldrop\nregex: url"},
		{"metrics: {drop: [a], podMonitor: {enabled: true}}", "PodMonitor/shop-shell-operator", "regex: a\n"},
	} {
		var lines []string
		for line := range strings.Lines(rendered(t, row.values).at(t, row.object, "spec")) {
			lines = append(lines, strings.TrimSpace(line))
		}
		if spec := strings.Join(lines, "\n"); !strings.Contains(spec, row.want) {
			t.Errorf("%s: %s has no\n%s\nin\n%s", row.values, row.object, row.want, spec)
		}
	}
	// null removes a default.
	rendered(t, "global: null\ntolerations: null\nimage: {pullSecrets: null}\nmetrics: {drop: [a], podMonitor: {enabled: true, "+
		"metricRelabelings: null}}")
	// Without values, nothing is dropped, and a PodMonitor needs no Service.
	o := rendered(t, "metrics: {podMonitor: {enabled: true}}")
	if o["Service/shop-shell-operator-metrics"] != nil || strings.Contains(o.at(t, "PodMonitor/shop-shell-operator", "spec"), "drop") {
		t.Errorf("a PodMonitor comes with %v", o)
	}
}
