package kubectl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// line is a command line with the way that it is expected to take.
type line struct{ way, text string }

// TestDifferential runs command lines with the complete kubectl and, on equal objects, with the trimmed one. Output, status and
// requests must be equal; the requests contain all that decides on the resulting objects, managedFields included.
func TestDifferential(t *testing.T) {
	c := testenv.Shared(t)
	blocks := append(written(t), generated(t)...)
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	if n < 300 {
		t.Errorf("there are only %d command lines", n)
	}
	if !testenv.Long() {
		blocks = selection(blocks, 100)
	}
	complete, trimmed := newSide(t, c, false), newSide(t, c, true)
	for _, s := range []*side{complete, trimmed} {
		unpack(t, filepath.Join(s.dir, "work"))
	}
	for _, b := range blocks {
		for _, l := range b {
			var want, got result
			var both sync.WaitGroup
			both.Go(func() { want = complete.run(l.text) })
			both.Go(func() { got = trimmed.run(l.text) })
			both.Wait()
			compare(t, l, got, want)
		}
	}
	// The objects that the lines have left, without what controllers add to them.
	const all = `kubectl get cm,secret,sa,deployment,role,rolebinding,svc,cronjob,job,quota,pdb,ingress -o json --show-managed-fields |
		jq 'del(.items[].status, .items[].metadata.annotations["deployment.kubernetes.io/revision"])
		| .items[].metadata.managedFields |= map(select(.manager != "kube-controller-manager"))'`
	compare(t, line{"served", all}, trimmed.run(all), complete.run(all))
	if t.Failed() {
		t.Logf("repeat it with: SEED=%d", seed())
	}
}

func compare(t *testing.T, l line, got, want result) {
	t.Helper()
	if way := map[bool]string{false: "served", true: "process"}[got.process]; way != l.way {
		t.Errorf("%s\nwas %s, not %s", l.text, way, l.way)
	}
	for _, part := range []struct{ name, got, want string }{
		{"stdout", got.stdout, want.stdout}, {"stderr", got.stderr, want.stderr},
		{"status", fmt.Sprint(got.status), fmt.Sprint(want.status)},
		{"requests", strings.Join(got.requests, "\n\n"), strings.Join(want.requests, "\n\n")},
	} {
		if part.got != part.want {
			t.Errorf("%s\n%s of the trimmed kubectl:\n%s\nof the complete one:\n%s", l.text, part.name, part.got, part.want)
		}
	}
}

// selection returns the first block and others at random, with at least n lines.
func selection(blocks [][]line, n int) [][]line {
	selected := blocks[:1:1]
	random := rand.New(rand.NewPCG(seed(), 0))
	for _, i := range random.Perm(len(blocks) - 1) {
		if n -= len(blocks[i+1]); n < 0 {
			break
		}
		selected = append(selected, blocks[i+1])
	}
	return selected
}

// written reads the blocks of lines.txt.
func written(t *testing.T) (blocks [][]line) {
	t.Helper()
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var b []line
		for l := range strings.Lines(block) {
			if way, text, ok := strings.Cut(strings.TrimSpace(l), " "); ok && way != "#" {
				b = append(b, line{way, text})
			}
		}
		if len(b) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func unpack(t *testing.T, dir string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// calls are valid calls of the served commands, to which single flags are added. N is a number of its own in each line.
var calls = map[string]string{
	"annotate":                   "kubectl annotate cm settings note=N --overwrite",
	"apply":                      "sed s/NAME/n-N/ cm.yaml | kubectl apply -f -",
	"auth can-i":                 "kubectl auth can-i get cm",
	"create":                     "sed s/NAME/n-N/ cm.yaml | kubectl create -f -",
	"create clusterrole":         "kubectl create clusterrole $NS-N --verb=get --resource=pods --dry-run=server",
	"create clusterrolebinding":  "kubectl create clusterrolebinding $NS-N --clusterrole=view --user=u --dry-run=server",
	"create configmap":           "kubectl create configmap n-N --from-literal=a=b",
	"create cronjob":             "kubectl create cronjob n-N --image=busybox --schedule='1 1 1 1 *'",
	"create deployment":          "kubectl create deployment n-N --image=nginx --replicas=0",
	"create ingress":             "kubectl create ingress n-N --rule=/=web:80",
	"create job":                 "kubectl create job n-N --image=busybox --dry-run=server",
	"create namespace":           "kubectl create namespace $NS-N --dry-run=server",
	"create poddisruptionbudget": "kubectl create pdb n-N --selector=app=web --min-available=1",
	"create priorityclass":       "kubectl create priorityclass $NS-N --value=1 --dry-run=server",
	"create quota":               "kubectl create quota n-N --hard=pods=1",
	"create role":                "kubectl create role n-N --verb=get --resource=pods",
	"create rolebinding":         "kubectl create rolebinding n-N --role=reader --user=u",
	"create secret generic":      "kubectl create secret generic n-N --from-literal=a=b",
	"create service clusterip":   "kubectl create service clusterip n-N --clusterip=None",
	"create service nodeport":    "kubectl create service nodeport n-N --tcp=80 --dry-run=client",
	"create serviceaccount":      "kubectl create serviceaccount n-N",
	"create token":               "kubectl create token default --duration=10m",
	"delete":                     "kubectl delete cm n-N",
	"get":                        "kubectl get configmap settings",
	"label":                      "kubectl label cm settings note=N --overwrite",
	"patch":                      `kubectl patch cm settings -p '{"data": {"n": "N"}}'`,
	"replace":                    "sed s/NAME/second/ cm.yaml | kubectl replace -f -",
	"rollout restart":            "kubectl rollout restart deployment missing",
	"rollout status":             "kubectl rollout status deployment quiet --timeout=30s",
	"scale":                      "kubectl scale deployment web --replicas=0",
	"version":                    "kubectl version",
	"wait":                       "kubectl wait --for=jsonpath='{.data.mode}'=fast cm/settings --timeout=5s",
	// Flags of all commands.
	"options": "kubectl get cm settings -o name",
}

// values of flags that accept only some.
var values = map[string][]string{
	"aggregation-rule": {"a=b"}, "as-user-extra": {"a=b"}, "cascade": {"orphan", "background"}, "dry-run": {"client", "server"}, "field-selector": {"metadata.name=settings"},
	"for": {"delete"}, "from-env-file": {"settings.env"}, "from-file": {"cm.yaml"}, "output": {"json", "yaml", "name"}, "patch": {`'{"data": {}}'`},
	"selector": {"app=web"}, "sort-by": {".metadata.name"}, "type": {"merge"}, "username": {"someone"}, "v": {"0"}, "validate": {"ignore", "warn"},
}

// elsewhere are flags of the complete kubectl alone.
var elsewhere = []string{
	"help", "kustomize", "cache-dir", "kuberc", "profile", "profile-output", "v", "vmodule", "log-flush-frequency", "edit", "interactive",
}

var flagOfHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)=(.*):$`)

// generated returns a block for each command: calls with each flag that its help lists.
func generated(t *testing.T) (blocks [][]line) {
	t.Helper()
	number := 0
	for _, command := range slices.Sorted(maps.Keys(calls)) {
		args := append(strings.Fields(command), "--help")
		if command == "options" {
			args = args[:1]
		}
		help, err := exec.Command(bin(t, "kubectl"), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var b []line
		for _, m := range flagOfHelp.FindAllStringSubmatch(string(help), -1) {
			flag, byDefault := m[1], m[2]
			// Watching does not end by itself; labels and annotations are listed in no order.
			if strings.HasPrefix(flag, "watch") && command == "get" || flag == "list" && command != "auth can-i" {
				continue
			}
			choices := values[flag]
			switch {
			case choices != nil:
			case byDefault == "true" || byDefault == "false":
				choices = []string{"true", "false"}
			case regexp.MustCompile(`^-?\d+$`).MatchString(byDefault):
				choices = []string{"1"}
			case regexp.MustCompile(`^\d+\w+$`).MatchString(byDefault):
				choices = []string{"1s"}
			default:
				choices = []string{"x"}
			}
			for _, value := range choices {
				number++
				l := line{"served", strings.ReplaceAll(calls[command], "-N", fmt.Sprint("-", number))}
				l.text = strings.ReplaceAll(strings.ReplaceAll(l.text, "=N", fmt.Sprint("=", number)), `"N"`, fmt.Sprintf("%q", fmt.Sprint(number)))
				l.text += fmt.Sprintf(" --%s=%s", flag, value)
				if slices.Contains(elsewhere, flag) || command == "replace" && flag == "raw" {
					l.way = "process"
				}
				b = append(b, l)
			}
		}
		if len(b) == 0 {
			t.Fatalf("the help of %s lists no flag:\n%s", command, help)
		}
		// Blocks of a few lines, so that a selection has some of each command.
		for chunk := range slices.Chunk(b, 5) {
			blocks = append(blocks, chunk)
		}
	}
	return blocks
}
