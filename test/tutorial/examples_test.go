package tutorial

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// examplePages are the READMEs of the examples. They are followed one after the other: some use the same names.
func examplePages(port string) []page {
	// A new namespace has its ServiceAccount a moment later, and people are slower than that.
	account := func(name string) string {
		return "kubectl create namespace " + name + "\nkubectl wait --for=create -n " + name + " serviceaccount/default"
	}
	all := []page{
		{name: "monitor-pods", replace: []string{"web-7887448d46-xj5sg", "web-…", "web-7887448d46-ss4p6", "web-…"}, after: "kubectl delete deployment web"},
		{name: "platform-installer"},
		{name: "users-htpasswd"},
		{name: "secret-copier"},
		{name: "node-ping", replace: []string{"*/10 * *", "* * *"}, after: "kubectl delete node one"},
		{name: "mysql-database", replace: []string{"MYSQL_PORT=3306", "MYSQL_PORT=" + port, "/tmp/mysql", "mysql", "mysqldatabase NAME", "mysqldatabase rival"}},
		{name: "agent-injector", replace: []string{"67dcc6b75d-rdcd2", "…", "67dcc6b75d-sww5t", "…"}},
		{name: "agent-rbac", replace: []string{"kubectl create namespace build", account("build2"), "kubectl create namespace web", account("web"),
			"-n build", "-n build2", "serviceaccount:build", "serviceaccount:build2", "'build'", "'build2'"}},
		{name: "validate-image"},
		{name: "config-checksum", after: "kubectl delete deployment web"}, // in the namespace of the one before
		{name: "convert-crontab", after: "kubectl delete crd crontabs.example.com"},
		{name: "cluster-api"},
	}
	for i := range all {
		all[i].name = "../examples/" + all[i].name + "/README.md"
		all[i].replace = append(all[i].replace, "/tmp/cluster/kubeconfig", "$PWD/kubeconfig")
	}
	return all
}

// TestExamples follows the READMEs of the examples, on one cluster. What the examples promise is tested with them.
func TestExamples(t *testing.T) {
	t.Parallel()
	cluster := testenv.Own(t)
	for _, p := range examplePages(freePort(t)) {
		t.Run(strings.Split(p.name, "/")[2], func(t *testing.T) { p.follow(t, cluster) })
	}
}
