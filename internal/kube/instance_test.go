package kube

import (
	"strings"
	"testing"
)

func TestInstance(t *testing.T) {
	c := &Cluster{Namespace: "ops"}
	for want, i := range map[string]Installation{
		"ops.shell-operator": {Lease: "shell-operator"},
		"shop.second":        {Namespace: "shop", Lease: "second"},
		"mine":               {Name: "mine", Namespace: "shop", Lease: "second"},
	} {
		if got := c.Instance(i); got != want {
			t.Errorf("%+v is %q, want %q", i, got, want)
		}
	}
}

// Names of the API have at most 128 bytes. Long ones that differ at their ends stay different.
func TestFieldManager(t *testing.T) {
	if got := FieldManager("ops.shell-operator", "a/b.sh", "condition",
		"Ready"); got != "shell-operator/ops.shell-operator/a/b.sh/condition/Ready" {
		t.Error(got)
	}
	long := strings.Repeat("x", 200)
	a, b := FieldManager("i", long+"a"), FieldManager("i", long+"b")
	if a == b || len(a) != 128 || a[:119] != b[:119] || a[119] != '-' {
		t.Errorf("%q, %q", a, b)
	}
}
