package patch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// model is what the objects must be when a file was carried out line by line. An object that is missing is fine for
// all operations here.
type model map[string]map[string]string

func (m model) do(operation, name string, n int) {
	switch operation {
	case "CreateOrUpdate":
		m[name] = map[string]string{"log": fmt.Sprint(n)}
	case "CreateIfNotExists":
		if m[name] == nil {
			m[name] = map[string]string{"log": fmt.Sprint(n)}
		}
	case "MergePatch":
		if m[name] != nil {
			m[name]["last"] = fmt.Sprint(n)
		}
	case "JQPatch":
		if m[name] != nil {
			m[name]["log"] += fmt.Sprintf(" %d", n)
		}
	case "DeleteInBackground":
		delete(m, name)
	}
}

// line is the operation as a hook writes it.
func line(operation, namespace, name string, n int) string {
	target := fmt.Sprintf(`"kind": "ConfigMap", "namespace": %q, "name": %q, "ignoreMissingObject": true`, namespace, name)
	switch operation {
	case "MergePatch":
		target += fmt.Sprintf(`, "mergePatch": {"data": {"last": "%d"}}`, n)
	case "JQPatch":
		target += fmt.Sprintf(`, "jqFilter": ".data.log += \" %d\""`, n)
	case "CreateOrUpdate", "CreateIfNotExists":
		target = fmt.Sprintf(`"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %q, "name": %q}, "data": {"log": "%d"}}`, namespace, name, n)
	}
	return fmt.Sprintf(`{"operation": %q, %s}`, operation, target)
}

// Neighbours run at the same time, yet every object goes through its operations in the order of the file.
func TestOrderOfEachObject(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	a, _ := newApplier(t, cluster, nil)
	random := rand.New(rand.NewPCG(5, 6))
	operations := []string{"CreateOrUpdate", "CreateOrUpdate", "CreateIfNotExists", "MergePatch", "MergePatch", "JQPatch", "JQPatch", "JQPatch", "DeleteInBackground"}
	want := model{}
	for range 5 {
		var file []string
		for n := 0; n < 400; {
			// Bursts of one operation, in which objects come again.
			operation := operations[random.IntN(len(operations))]
			for range 1 + random.IntN(10) {
				name := fmt.Sprintf("object-%d", random.IntN(8))
				file = append(file, line(operation, namespace, name, n))
				want.do(operation, name, n)
				n++
			}
		}
		if got := apply(t, a, strings.Join(file, "\n")); got != "" {
			t.Fatal(got)
		}
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Data     map[string]string
			}
		}
		if err := json.Unmarshal([]byte(cluster.Kubectl(t, "-n", namespace, "get", "configmaps", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		got := model{}
		for _, item := range list.Items {
			if strings.HasPrefix(item.Metadata.Name, "object-") {
				got[item.Metadata.Name] = item.Data
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("the objects are\n%v\nbut should be\n%v\nafter\n%s", got, want, strings.Join(file, "\n"))
		}
	}
}
