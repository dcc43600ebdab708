package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// rbac --check compares the Roles with what is granted: to the user of the connection, to another account by impersonation, and to one that
// may not be impersonated.
func TestCheckRBAC(t *testing.T) {
	c := testenv.Shared(t)
	own, shop := c.Namespace(t), c.Namespace(t)
	dir := hooksDir(t, map[string]string{"watches": fmt.Sprintf("#!/bin/sh\necho '{configVersion: v1, kubernetes: [{name: settings, kind: "+
		"ConfigMap, nameSelector: {matchNames: [one]}, namespace: {nameSelector: {matchNames: [%s]}}}]}'\n", shop)})
	for _, account := range []string{"operator", "looks", "reviews"} {
		c.Kubectl(t, "-n", own, "create", "serviceaccount", account)
	}
	args := []string{"rbac", "--hooks-dir", dir, "--namespace", own, "--name", own, "--service-account", "operator"}
	roles := command(t, c.Kubeconfig, args...)
	check := func(kubeconfig string, more ...string) (status int, out, notes string) {
		t.Helper()
		cmd := exec.Command(testenv.Binary(t), slices.Concat(args, []string{"--check"}, more)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		failed := new(exec.ExitError)
		if errors.As(err, &failed) {
			status = failed.ExitCode()
		}
		return status, string(text), stderr.String()
	}
	expect := func(wantStatus int, want string, unwanted string, kubeconfig string, more ...string) {
		t.Helper()
		status, out, notes := check(kubeconfig, more...)
		if status != wantStatus || !strings.Contains(out, want) || unwanted != "" && strings.Contains(out, unwanted) {
			t.Errorf("%q: status %d\n%s%s\nwant %d and\n%s", more, status, out, notes, wantStatus, want)
		}
	}
	as := []string{"--as", own + "/operator"}
	second := fmt.Sprintf("- get, list, watch configmaps one in namespace %s: watches, kubernetes \"settings\"\n", shop)
	expect(1, fmt.Sprintf("- create, patch events.events.k8s.io in namespace %[1]s: Events that report failing hooks\n  give the operator's "+
		"ServiceAccount, by a Role in namespace %[1]q (or a ClusterRole), the rule {apiGroups: [\"events.k8s.io\"], resources: [\"events\"], "+
		"verbs: [\"create\", \"patch\"]}\n", own), "granted, and needed", c.Kubeconfig, as...)
	expect(1, second, "selfsubject", c.Kubeconfig, as...)

	c.KubectlInput(t, roles, "apply", "-f", "-")
	user := "system:serviceaccount:" + own + ":operator"
	c.UntilRoles(t, user, own, roles)
	expect(0, "nothing is missing\n", "granted", c.Kubeconfig, as...)
	expect(0, "nothing is missing\n", "granted", c.Kubeconfig, "--as", user)
	expect(0, "nothing is missing\n", "granted", kubeconfigOf(t, c, own, "operator"))

	// More than is needed: another verb, and all objects instead of one.
	c.Kubectl(t, "-n", shop, "create", "role", "more", "--verb=get,delete", "--resource=configmaps")
	c.Kubectl(t, "-n", shop, "create", "rolebinding", "more", "--role=more", "--serviceaccount="+own+":operator")
	c.UntilAllowed(t, user, shop, "delete", "configmaps")
	expect(0, fmt.Sprintf("nothing is missing\ngranted, and needed by no hook:\n- delete, get configmaps in namespace %s\n", shop),
		"selfsubject",
		c.Kubeconfig, as...)
	_, out, _ := check(c.Kubeconfig, append(as, "-o", "json")...)
	var report struct {
		Account           string
		Missing, Unneeded []struct {
			Namespace, Resource string
			Verbs               []string
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Account != user || len(report.Missing) != 0 ||
		len(report.Unneeded) != 1 || report.Unneeded[0].Resource != "configmaps" {
		t.Errorf("%v: %s", err, out)
	}
	// The administrator may do everything.
	expect(0, "granted, and needed by no hook:\n- * *.* in all namespaces of the hooks", "", c.Kubeconfig)

	// Without the permission to impersonate there is the first part, and without that for reviews an error.
	c.Kubectl(t, "create", "clusterrole", own+"-reviews", "--verb=create", "--resource=subjectaccessreviews.authorization.k8s.io")
	c.Kubectl(t, "create", "clusterrolebinding", own+"-reviews", "--clusterrole="+own+"-reviews", "--serviceaccount="+own+":reviews")
	t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole,clusterrolebinding", own+"-reviews") })
	c.UntilAllowed(t, "system:serviceaccount:"+own+":reviews", "", "create", "subjectaccessreviews.authorization.k8s.io")
	expect(0, "nothing is missing\nnot known: what is granted and not needed: no permission to impersonate "+user+"\n", "granted, and",
		kubeconfigOf(t, c, own, "reviews"), as...)
	if status, out, stderr := check(kubeconfigOf(t, c, own, "looks"), as...); status != 1 ||
		!strings.Contains(stderr, "cannot check the permissions of "+user) {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
}

// The rules of a tenant are compared with what is granted to its account, which the hints name.
func TestCheckRBACOfTenants(t *testing.T) {
	c := testenv.Shared(t)
	own, shop := c.Namespace(t), c.Namespace(t)
	files := hooksDir(t, map[string]string{
		"watches": "#!/bin/sh\necho '{configVersion: v1, kubernetes: [{kind: ConfigMap, namespace: {nameSelector: {matchNames: [" + shop +
			"]}}}]}'\n",
		"tenants.yaml": "- {name: shop, folder: shop, serviceAccount: " + shop + "/hooks}\n",
	})
	if err := os.Mkdir(filepath.Join(files, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(files, "watches"), filepath.Join(files, "shop", "watches")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(files, "tenants.yaml"), 0o600); err != nil { // or it is a hook
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Binary(t), "rbac", "--check", "--as", shop+"/hooks", "--hooks-dir", files, "--namespace", own,
		"--tenants", filepath.Join(files, "tenants.yaml"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("get, list, watch configmaps in namespace %s: shop/watches, kubernetes \"kubernetes\"\n"+
		"  give the ServiceAccount %s/hooks, "+
		"by a Role in namespace %q", shop, shop, shop)
	if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "the operator's") {
		t.Errorf("%v\n%s\nwant %s", err, out, want)
	}
}
