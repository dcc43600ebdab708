package tutorial

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/otlp"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// webhookPages register webhooks under one name, so they are followed one after the other, beside all others.
var webhookPages = []string{
	"docs/how-to/develop-locally.md", "docs/how-to/validate-and-mutate-objects.md",
	"docs/how-to/convert-versions.md", "docs/how-to/answer-http-requests.md",
}

// tutorialPage is followed by TestFirstHook.
const tutorialPage = "docs/tutorial/first-hook.md"

// tracesPage sends spans to the receiver of the test.
const tracesPage = "docs/how-to/monitor-the-operator.md"

// workersPage has whole hooks, which a test of internal/run/worker runs.
const workersPage = "docs/how-to/workers-without-a-library.md"

// notInMemory are pages that make test-cluster follows alone, as an API server in memory lacks what they need, or make test its program.
var notInMemory = map[string]string{
	"README.md":                                         "kubectl: run",
	"docs/how-to/a-repository-of-hooks.md":              "programs: chart",
	"docs/how-to/convert-versions.md":                   "webhooks: objects are converted",
	"docs/how-to/develop-locally.md":                    "webhooks: a Deployment is reviewed",
	"docs/how-to/export-metrics-from-a-hook.md":         "kubectl: run",
	"docs/how-to/filter-with-jq.md":                     "controllers: the API server has a Service",
	"docs/how-to/give-a-team-its-own-hooks.md":          "programs: chart",
	"docs/how-to/grant-permissions.md":                  "permissions: they are listed",
	"docs/how-to/install-with-helm.md":                  "programs: chart",
	"docs/how-to/keep-secrets-out-of-logs-and-hooks.md": "programs: chart",
	"docs/how-to/validate-and-mutate-objects.md":        "webhooks: objects are reviewed",
	"docs/reference/chart.md":                           "programs: chart",
	"docs/reference/debug-api.md":                       "kubectl: run",
	"examples/agent-injector/README.md":                 "webhooks: Pods are reviewed",
	"examples/agent-rbac/README.md":                     "controllers: Namespaces have ServiceAccounts",
	"examples/cluster-api/README.md":                    "permissions: clients have different ones",
	"examples/config-checksum/README.md":                "controllers: a Deployment is rolled out",
	"examples/convert-crontab/README.md":                "webhooks: objects are converted",
	"examples/monitor-pods/README.md":                   "controllers: a Deployment has Pods",
	"examples/mysql-database/README.md":                 "programs: mysqld",
	"examples/node-ping/README.md":                      "programs: ping",
	"examples/platform-installer/README.md":             "kubectl: columns of a CRD",
	"examples/two-teams/README.md":                      "programs: chart",
	"examples/users-htpasswd/README.md":                 "programs: htpasswd",
	"examples/validate-image/README.md":                 "webhooks: Pods are reviewed",
	"examples/web-app/README.md":                        "controllers: children are deleted with their owner",
}

// followed reports whether TestPages or TestExamples follows a page: they fail at a block for which there is no test.
func followed(page string) bool {
	return page == "README.md" || strings.HasPrefix(page, "docs/") && page != tutorialPage && page != workersPage ||
		strings.HasPrefix(page, "examples/")
}

// TestPages follows the pages of docs on one cluster.
func TestPages(t *testing.T) {
	t.Parallel() // with the tutorial
	cluster := testenv.EitherOwn(t)
	receiver := otlp.NewReceiver(t, false)
	w := world{cluster: cluster, server: cluster.Config(t).Host,
		receiver: receiver.Address}
	all, err := pages.Pages(test.Root())
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for page, text := range all {
		if followed(page) && !strings.HasPrefix(page, "examples/") && !slices.Contains(webhookPages, page) && len(pages.Blocks(text)) > 0 {
			others = append(others, page)
		}
	}
	// Some use the same names: the one that creates a namespace comes before the one that needs it, or that limits it.
	slices.SortFunc(others, func(a, b string) int {
		const first = "docs/how-to/grant-permissions.md"
		if (a == first) != (b == first) {
			return slices.Index([]string{a, b}, first)*2 - 1
		}
		return -cmp.Compare(a, b)
	})
	t.Run("all", func(t *testing.T) {
		for name, lane := range map[string][]string{"webhooks": webhookPages, "others": others} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, page := range lane {
					t.Run(strings.TrimSuffix(page, ".md"), func(t *testing.T) {
						if w.follow(t, page); page == tracesPage {
							receiver.Until(t, "a run of this page", func(spans []otlp.Span) bool {
								return slices.ContainsFunc(spans, func(s otlp.Span) bool { return s.Name == "Run" })
							})
						}
					})
				}
			})
		}
	})
	configurations(t, cluster)
}

// TestExamples follows the READMEs of the examples on one cluster, one after the other: some use the same names.
func TestExamples(t *testing.T) {
	t.Parallel()
	w := world{cluster: testenv.EitherOwn(t)}
	for _, name := range []string{
		"monitor-pods", "platform-installer", "users-htpasswd", "secret-copier", "node-ping", "mysql-database", "agent-injector", "agent-rbac",
		"validate-image", "config-checksum", "convert-crontab", "cluster-api", "external-orders", "web-app", "two-teams",
	} {
		t.Run(name, func(t *testing.T) { w.follow(t, "examples/"+name+"/README.md") })
	}
}

// TestAddonsPage follows the README of the example with helm-controller: make test-addons.
func TestAddonsPage(t *testing.T) {
	if os.Getenv("ADDONS") == "" {
		t.Skip("make test-addons runs this test, with helm-controller")
	}
	world{cluster: testenv.Own(t)}.follow(t, "examples/addons/README.md")
}

// configurations lets one operator take all configurations that pages show. Those with webhooks are only looked at: they
// would be asked about everything in the cluster.
func configurations(t *testing.T, cluster *testenv.Cluster) {
	dir := t.TempDir()
	var watching, shown int
	err := filepath.WalkDir(filepath.Join(test.Root(), "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, b := range pages.Blocks(string(text)) {
			if b.Kind != "yaml" || !strings.HasPrefix(b.Text, "configVersion: v1\n") || strings.Contains(b.Text, "kubernetesValidating:") {
				continue
			}
			shown++
			if strings.Contains(b.Text, "\nkubernetes:") {
				watching++
			}
			write(t, filepath.Join(dir, fmt.Sprintf("%d-%s", b.Line, strings.TrimSuffix(filepath.Base(path), ".md"))),
				"#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'YAML'\n"+b.Text+"YAML\nfi\n", 0o755)
		}
		return err
	})
	if err != nil || shown < 8 {
		t.Fatalf("%d configurations found, error %v", shown, err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	op.UntilCount(watching, "Kubernetes bindings for hook are enabled successfully")
}
