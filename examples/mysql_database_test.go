package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

const mysqlPassword = "pa$$ word'\""

func TestMysqlDatabase(t *testing.T) {
	e, server := mysqlExample(t)
	server.Do("CREATE DATABASE legacy")
	e.start(server.Env()...)
	e.operator.UntilLog("Unlock kubernetes.Event tasks")

	five := []string{"alpha", "bravo", "charlie", "delta", "echo"}
	var all strings.Builder
	for _, name := range five {
		all.WriteString(mysqlDatabase(name, name, "Delete"))
	}
	e.input(all.String(), "create", "-f", "-")
	e.phase("Ready", five...)
	server.has("alpha", "bravo", "charlie", "delta", "echo", "legacy")

	e.kubectl("delete", "mysqldatabase", "alpha")
	server.has("bravo", "charlie", "delta", "echo", "legacy")
	e.kubectl("patch", "mysqldatabase", "bravo", "--type=merge", "-p", `{"spec":{"deletionPolicy":"Retain"}}`)
	e.kubectl("delete", "mysqldatabase", "bravo")
	server.has("bravo", "charlie", "delta", "echo", "legacy")

	// The first one keeps the database, whatever becomes of the second. When it goes, the second makes its own.
	e.input(mysqlDatabase("a-rival", "charlie", "Delete"), "create", "-f", "-")
	e.phase("Conflict", "a-rival")
	e.says("a-rival", "database 'charlie' belongs to MysqlDatabase 'charlie'")
	e.kubectl("delete", "mysqldatabase", "a-rival")
	server.has("bravo", "charlie", "delta", "echo", "legacy")
	e.phase("Ready", "charlie")
	e.input(mysqlDatabase("a-rival", "charlie", "Delete"), "create", "-f", "-")
	e.phase("Conflict", "a-rival")
	e.kubectl("delete", "mysqldatabase", "charlie")
	e.phase("Ready", "a-rival")
	e.says("a-rival", "")
	e.prints("Dropped database 'charlie'")
	server.has("bravo", "charlie", "delta", "echo", "legacy")

	// A database that existed before is never dropped.
	e.input(mysqlDatabase("legacy", "legacy", "Delete"), "create", "-f", "-")
	e.phase("Conflict", "legacy")
	e.says("legacy", "database 'legacy' was on the server before; an object with deletionPolicy Retain would take it over")
	e.kubectl("patch", "mysqldatabase", "legacy", "--type=merge", "-p", `{"spec":{"deletionPolicy":"Retain"}}`)
	e.phase("Ready", "legacy")
	e.kubectl("delete", "mysqldatabase", "legacy")
	server.has("bravo", "charlie", "delta", "echo", "legacy")

	// Two concurrent objects for one name: one of them has it.
	e.input(mysqlDatabase("two", "shared", "Delete")+mysqlDatabase("one", "shared", "Delete"), "create", "-f", "-")
	e.until("a conflict of two objects", func() bool {
		phases := strings.Fields(e.kubectl("get", "mysqldatabase", "one", "two", "-o", "jsonpath={.items[*].status.conditions[0].reason}"))
		slices.Sort(phases)
		return slices.Equal(phases, []string{"Conflict", "Ready"})
	})
	if n := e.failures(); n > 0 {
		t.Errorf("%d runs have failed", n)
	}

	// Started again, the operator writes nothing, but drops the database whose object was deleted meanwhile.
	e.hidesPassword()
	e.stop()
	e.kubectl("delete", "mysqldatabase", "delta", "--wait=false")
	before := e.mysqlVersions()
	e.start(server.Env()...)
	e.kubectl("wait", "--for=delete", "mysqldatabase/delta", "--timeout=60s")
	server.has("bravo", "charlie", "echo", "legacy", "shared")
	e.input(mysqlDatabase("foxtrot", "foxtrot", "Delete"), "create", "-f", "-")
	e.phase("Ready", "foxtrot")
	after := e.mysqlVersions()
	for _, name := range []string{"a-rival", "echo", "one", "two"} {
		if after[name] != before[name] {
			t.Errorf("the second start has written MysqlDatabase %s", name)
		}
	}
	if n := e.failures(); n > 0 {
		t.Errorf("%d runs have failed", n)
	}
	e.hidesPassword()
}

func TestMysqlDatabaseServerDown(t *testing.T) {
	e, server := mysqlExample(t)
	server.Stop()
	e.start(append(server.Env(), retryMinDelay, retryMaxDelay, "CHECK_CRONTAB=*/1 * * * * *")...)
	e.input(mysqlDatabase("shop", "shop", "Delete"), "create", "-f", "-")
	e.phase("Failed", "shop")
	if got := e.message("shop"); !strings.HasPrefix(got, "ERROR 2003 (HY000): Can't connect to MySQL server on '127.0.0.1") {
		t.Errorf("the reason is %q", got)
	}
	server.Start()
	e.phase("Ready", "shop")
	e.says("shop", "")
	server.has("shop")

	// A dropped database is recreated by the next check of the server.
	server.Do("DROP DATABASE shop")
	e.until("the database again", func() bool { return slices.Equal(server.Databases(), []string{"shop"}) })

	// An object stays as long as its database cannot be dropped.
	server.Stop()
	e.kubectl("delete", "mysqldatabase", "shop", "--wait=false")
	e.phase("Failed", "shop")
	server.Start()
	e.kubectl("wait", "--for=delete", "mysqldatabase/shop", "--timeout=60s")
	server.has()
	e.hidesPassword()
}

func TestMysqlDatabaseKilled(t *testing.T) {
	e, server := mysqlExample(t)
	e.start(append(server.Env(), retryMinDelay, retryMaxDelay, killedAfter(t, "CREATE", "DROP"))...)
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	e.input(mysqlDatabase("one", "one", "Delete")+mysqlDatabase("two", "two", "Delete"), "create", "-f", "-")
	e.phase("Ready", "one", "two")
	if n := e.failures(); n != 1 {
		t.Errorf("%d runs have failed, not the one that was killed after its CREATE", n)
	}
	server.has("one", "two")
	e.kubectl("delete", "mysqldatabase", "one", "two")
	server.has()
	if n := e.failures(); n != 2 {
		t.Errorf("%d runs have failed, not the two that were killed", n)
	}
}

// Killed at its first call of each program, and retried by the next run.
func TestMysqlDatabaseKilledOnce(t *testing.T) {
	e, server := mysqlExample(t)
	e.input(mysqlDatabase("one", "one", "Delete"), "create", "-f", "-")
	e.start(append(server.Env(), retryMinDelay, retryMaxDelay, killedOnce(t, "mysql", "kubectl"))...)
	e.phase("Ready", "one")
	server.has("one")
}

func TestMysqlDatabaseNames(t *testing.T) {
	e, _ := mysqlExample(t)
	for database, reason := range map[string]string{
		"mysql":                 "that database belongs to the server",
		"Shop":                  "should match",
		"a`; DROP DATABASE b;`": "should match",
		"":                      "should match",
		strings.Repeat("a", 65): "Too long",
	} {
		e.refuses(mysqlDatabase("shop", database, "Delete"), reason, "create", "-f", "-")
	}
	e.input(mysqlDatabase("shop", strings.Repeat("a", 64), "Delete"), "create", "-f", "-")
	e.refuses(mysqlDatabase("shop", "b", "Delete"), "a database cannot be renamed", "apply", "-f", "-")
}

// mysqlExample prepares the example and a server. The finalizers of what is left go at the end, when the operator has
// ended: the namespace could not be removed otherwise.
func mysqlExample(t *testing.T) (*example, *mysqlServer) {
	t.Helper()
	e := prepare(t, "mysql-database")
	e.env = append(e.env, "SHELL_OPERATOR_NAMESPACE="+e.namespace) // of the record, as in a Pod
	t.Cleanup(func() {
		for name := range e.mysqlVersions() {
			e.kubectl("patch", "mysqldatabase", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
	})
	return e, &mysqlServer{test.NewMysqlServer(t, mysqlPassword), t}
}

func mysqlDatabase(name, database, policy string) string {
	return fmt.Sprintf("---\napiVersion: example.com/v1\nkind: MysqlDatabase\nmetadata: {name: %s}\nspec: {database: %q, "+
		"deletionPolicy: %s}\n",
		name, database, policy)
}

// phase waits until objects have a reason of the condition Ready.
func (e *example) phase(reason string, names ...string) {
	e.t.Helper()
	e.kubectl(append([]string{"wait", "--for=jsonpath={.status.conditions[0].reason}=" + reason, "--timeout=60s", "mysqldatabase"},
		names...)...)
}

func (e *example) message(name string) string {
	e.t.Helper()
	return e.kubectl("get", "mysqldatabase", name, "-o", "jsonpath={.status.conditions[0].message}")
}

func (e *example) says(name, want string) {
	e.t.Helper()
	if got := e.message(name); got != want {
		e.t.Errorf("the message of %s is %q, not %q", name, got, want)
	}
}

// mysqlVersions returns the resource versions by name.
func (e *example) mysqlVersions() map[string]string {
	e.t.Helper()
	versions := map[string]string{}
	text := e.kubectl("get", "mysqldatabase", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[name] = version
	}
	return versions
}

// refuses expects the API server to reject a command of kubectl.
func (e *example) refuses(input, reason string, args ...string) {
	e.t.Helper()
	if out, err := e.try(input, args...); err == nil || !strings.Contains(out, reason) {
		e.t.Errorf("%s\nshould be refused (%s): %v\n%s", input, reason, err, out)
	}
}

func (e *example) hidesPassword() {
	e.t.Helper()
	for _, r := range e.operator.Records() {
		for _, value := range r.Fields {
			if strings.Contains(value, mysqlPassword) {
				e.t.Errorf("the password is in the log: %s", r.Text)
			}
		}
	}
}

type mysqlServer struct {
	*test.MysqlServer
	t *testing.T
}

func (s *mysqlServer) has(want ...string) {
	s.t.Helper()
	if got := s.Databases(); !slices.Equal(got, want) {
		s.t.Errorf("the server has %q, not %q", got, want)
	}
}

// killedAfter returns a PATH for hooks with a client that kills its run when it has done a statement with one of the
// words, each once. The test fails if it has not.
func killedAfter(t *testing.T, words ...string) (env string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nstatus=0\n'" + filepath.Join(test.Tools(t), "mysql") + "' \"$@\" || status=$?\n"
	for _, word := range words {
		killed := filepath.Join(dir, "killed-after-"+word)
		script += fmt.Sprintf("case $* in *%s*) if mkdir '%s' 2>/dev/null; then kill -9 0; fi ;; esac\n", word, killed)
		t.Cleanup(func() {
			if _, err := os.Stat(killed); err != nil {
				t.Errorf("no run was killed after %s", word)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "mysql"), []byte(script+"exit \"$status\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + test.Tools(t) + ":" + os.Getenv("PATH")
}
