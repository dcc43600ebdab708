package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// TestOptions configure Test.
type TestOptions struct {
	// Paths are test files, and directories that are searched for them.
	Paths []string
	// Run selects cases by their names; nil means all.
	Run *regexp.Regexp
	// Update writes the results of cases into their empty expectations.
	Update bool
	// Role is a file of Roles that the simulated cluster grants; empty means that everything is allowed. Namespace is the namespace of the
	// operator; empty means "default".
	Role, Namespace string

	// collect, if set, is called with each case that has run. It may be called concurrently.
	collect func(hookFile string, h *hook.Hook, result *simulate.Result)
}

// TestReport is what came of all cases.
type TestReport struct {
	Cases   []TestCase `json:"cases"`
	Failed  int        `json:"failed"`
	Files   int        `json:"files"`
	Updated []string   `json:"updated,omitempty"`
	Seconds float64    `json:"seconds"`
}

// TestCase is what came of a case, or of a file that cannot be run: then Name is empty.
type TestCase struct {
	File     string             `json:"file"`
	Line     int                `json:"line"`
	Name     string             `json:"name,omitempty"`
	Hook     string             `json:"hook,omitempty"`
	Seconds  float64            `json:"seconds"`
	Failures []testfile.Failure `json:"failures,omitempty"`
	// Warnings are mistakes that fail no run: the operator would log them.
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Stdout   []string `json:"stdout,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
}

// defaultCaseTimeout limits a run of a hook without executionTimeout.
const defaultCaseTimeout = 30 * time.Second

// tester runs test files.
type tester struct {
	opts    Options
	test    TestOptions
	env     []string
	filters *jq.Compiler
	private string
	// slots bound the cases that run at the same time.
	slots chan struct{}
	// role is read from TestOptions.Role; nil without one.
	role *simulate.Role
	// hooks are the config calls, by the path of the hook and the variables of the file.
	mu    sync.Mutex
	hooks map[string]func() (*hook.Hook, error)
}

// Test runs the cases of test files.
func Test(ctx context.Context, o Options, t TestOptions) (report TestReport, err error) {
	started := time.Now()
	files, err := testfile.Find(t.Paths)
	if err != nil {
		return report, err
	}
	private, err := prepare(&o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	run := &tester{
		opts: o, test: t, private: private, filters: jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath}),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), hooks: map[string]func() (*hook.Hook, error){}, env: caseEnvironment(o.Env),
	}
	if t.Role != "" {
		if run.role, err = simulate.ReadRole(t.Role); err != nil {
			return report, err
		}
	}
	report.Cases, report.Files = []TestCase{}, len(files)
	all := make([][]TestCase, len(files))
	updated := make([]bool, len(files))
	errs := make([]error, len(files))
	var running sync.WaitGroup
	for i, path := range files {
		running.Go(func() { all[i], updated[i], errs[i] = run.file(ctx, path) })
	}
	running.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return report, err
	}
	for i := range all {
		report.Cases = append(report.Cases, all[i]...)
		if updated[i] {
			report.Updated = append(report.Updated, files[i])
		}
	}
	for _, c := range report.Cases {
		if len(c.Failures) > 0 {
			report.Failed++
		}
	}
	if len(report.Cases) == 0 {
		return report, fmt.Errorf("no case has a name that matches %s", t.Run)
	}
	report.Seconds = time.Since(started).Seconds()
	return report, nil
}

// caseEnvironment is what the hook of a case gets, but for what is its own.
func caseEnvironment(env []string) []string {
	own := []string{"LANG=C.UTF-8", "TZ=UTC"}
	for _, name := range []string{"PATH", "SHELL_LIB", "FRAMEWORK_DIR", "PYTHONPATH"} {
		if value := process.Variable(env, name); value != "" {
			own = append(own, name+"="+value)
		}
	}
	return own
}

// file runs the cases of a file. An error is one of the machine.
func (t *tester) file(ctx context.Context, path string) (cases []TestCase, updated bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the test file: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	f, problems := testfile.Parse(absolute, text)
	broken := TestCase{File: path, Line: 1}
	if len(problems) > 0 {
		broken.Line, broken.Failures = problems[0].Line, problems
		return []TestCase{broken}, false, nil
	}
	hookFile, err := f.FindHook()
	if err == nil {
		_, err = t.load(ctx, hookFile, f.Env)
	}
	if err != nil {
		broken.Failures = []testfile.Failure{{Line: 1, Message: err.Error()}}
		return []TestCase{broken}, false, nil
	}
	var selected []*testfile.Case
	for _, c := range f.Cases {
		if t.test.Run == nil || t.test.Run.MatchString(c.Name) {
			selected = append(selected, c)
		}
	}
	cases = make([]TestCase, len(selected))
	outcomes := make([]testfile.Outcome, len(selected))
	var running sync.WaitGroup
	var alone sync.RWMutex
	for i, c := range selected {
		running.Go(func() {
			if !c.Parallel {
				alone.Lock()
				defer alone.Unlock()
			} else {
				alone.RLock()
				defer alone.RUnlock()
			}
			t.slots <- struct{}{}
			defer func() { <-t.slots }()
			cases[i], outcomes[i] = t.one(ctx, path, hookFile, f, c)
		})
	}
	running.Wait()
	if i := slices.IndexFunc(outcomes, func(o testfile.Outcome) bool { return o.Actual != nil && o.Actual.Requeues() }); i >= 0 &&
		!slices.ContainsFunc(f.Cases, func(c *testfile.Case) bool { return c.Delivers("Requeue") }) {
		cases[i].Notes = append(cases[i].Notes,
			"the run asks for a requeue; no case delivers one, such as event: [{Added: FILE}, {Requeue: KIND/NAME}]")
	}
	if !t.test.Update || ctx.Err() != nil {
		return cases, false, nil
	}
	return t.update(f, path, text, cases, outcomes)
}

// update writes the results into the empty expectations of a file, and clears the failures that this ends.
func (t *tester) update(f *testfile.File, path string, text []byte, cases []TestCase,
	outcomes []testfile.Outcome) ([]TestCase, bool, error) {
	newText := f.Update(outcomes)
	if bytes.Equal(newText, text) {
		return cases, false, nil
	}
	again, problems := testfile.Parse(f.Path, newText)
	if len(problems) > 0 || len(again.Cases) != len(f.Cases) {
		return cases, false, fmt.Errorf("%s is not updated, because of a bug: the new text is no test file", path)
	}
	if err := rewrite(path, text, newText); err != nil {
		return cases, false, fmt.Errorf("cannot update the test file: %w", err)
	}
	for i, o := range outcomes {
		if o.Actual != nil {
			cases[i].Failures = again.Cases[slices.Index(f.Cases, o.Case)].Compare(o.Actual)
		}
	}
	return cases, true, nil
}

// load calls a hook with --config, once for each set of variables.
func (t *tester) load(ctx context.Context, path string, env map[string]string) (*hook.Hook, error) {
	call := fmt.Sprintf("%q %q", path, env)
	t.mu.Lock()
	ask := t.hooks[call]
	if ask == nil {
		ask = sync.OnceValues(func() (*hook.Hook, error) {
			o := t.opts
			o.HooksDir, o.Env = filepath.Dir(path), slices.Clone(t.env)
			for name, value := range env {
				o.Env = append(o.Env, name+"="+value)
			}
			discover := discovery(o)
			discover.Filters = t.filters
			answer, err := hookset.Ask(ctx, discover, o.HooksDir, hookset.File{Name: filepath.Base(path), Path: path})
			return answer.Hook, err
		})
		t.hooks[call] = ask
	}
	t.mu.Unlock()
	return ask()
}

// one runs a case.
func (t *tester) one(ctx context.Context, path, hookFile string, f *testfile.File, c *testfile.Case) (TestCase, testfile.Outcome) {
	started := time.Now()
	report := TestCase{File: path, Line: c.Line, Name: c.Name, Hook: filepath.Base(hookFile)}
	result, err := t.simulate(ctx, hookFile, f, c)
	if result != nil {
		report.Stdout, report.Stderr, report.Notes = result.Stdout, result.Stderr, result.Notes
		report.Warnings = result.Warnings
		if t.test.collect != nil {
			h, _ := t.load(ctx, hookFile, f.Env) // which has succeeded
			t.test.collect(hookFile, h, result)
		}
	}
	report.Seconds = time.Since(started).Seconds()
	var actual *testfile.Actual
	if err == nil {
		actual, err = result.Actual()
	}
	if err != nil {
		report.Failures = []testfile.Failure{{Line: c.Line, Message: err.Error()}}
		return report, testfile.Outcome{Case: c}
	}
	if result.Runs == 0 {
		if c.Expect.Has("runs") || len(result.Denied) > 0 { // else it is a failure
			report.Notes = append(report.Notes, "nothing caused a run")
		}
		report.Notes = append(report.Notes, result.Excluded...)
	} else {
		report.Notes = append(report.Notes, result.Ignored...)
	}
	if !c.Deletes() { // else they are failures
		report.Notes = append(report.Notes, c.Unknown(actual)...)
	}
	if denied := deniedFailures(result.Denied, c.Line); len(denied) > 0 {
		// The Role lacks something, so the result is nothing to update expectations by.
		report.Failures = denied
		if result.Runs > 0 {
			report.Failures = append(denied, c.Compare(actual)...)
		}
		return report, testfile.Outcome{Case: c}
	}
	report.Failures = c.Compare(actual)
	return report, testfile.Outcome{Case: c, Actual: actual}
}

// deniedFailures reports permissions that a Role does not grant: one failure for each resource and namespace, with the rule to add.
func deniedFailures(missing []rbac.Permission, line int) (all []testfile.Failure) {
	slices.SortFunc(missing, func(a, b rbac.Permission) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(escalated(a), escalated(b)), cmp.Compare(a.Verb, b.Verb))
	})
	for len(missing) > 0 {
		first := missing[0]
		var verbs []string
		for len(missing) > 0 && missing[0].Namespace == first.Namespace && missing[0].Group == first.Group &&
			missing[0].Resource == first.Resource && escalated(missing[0]) == escalated(first) {
			verbs = append(verbs, missing[0].Verb)
			missing = missing[1:]
		}
		verbs = slices.Compact(verbs)
		where := ""
		if first.Namespace != "" {
			where = " in namespace " + first.Namespace
		}
		all = append(all, testfile.Failure{Line: line,
			Message: fmt.Sprintf("the Role of --as-role: no permission to %s %s%s", strings.Join(verbs, ", "), first.Resource, where),
			Hint: kube.Grant(first.Namespace, kube.Rule{Group: first.Group, Resource: first.Resource, Verbs: verbs,
				Names: strings.Fields(escalated(first))})})
	}
	return all
}

// escalated is the name of the Role that a permission to bind or to escalate is for; other permissions are reported without names.
func escalated(p rbac.Permission) string {
	if p.Verb == "bind" || p.Verb == "escalate" {
		return p.Name
	}
	return ""
}

func (t *tester) simulate(ctx context.Context, hookFile string, f *testfile.File, c *testfile.Case) (result *simulate.Result, err error) {
	h, err := t.load(ctx, hookFile, f.Env)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(t.private, "case-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	return simulate.Run(ctx, h, c.Input, simulate.Options{
		Filters: t.filters, Env: t.env, Timeout: defaultCaseTimeout, Workers: t.opts.Workers, ReadyTimeout: t.opts.ConfigTimeout, Dir: dir,
		Namespace: t.test.Namespace, Role: t.role,
	})
}

// removeAll removes a directory that a hook may have filled with directories that cannot be written.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
