package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/script"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// LintOptions are those of Lint.
type LintOptions struct {
	// NoRun starts no hook: configurations are not checked.
	NoRun bool
	// Cluster checks bindings against the cluster, too, with the permissions of the user of the connection, or of As.
	Cluster bool
	As      string
	// RBAC are the names of what the operator itself uses.
	RBAC RBACOptions
}

// LintReport has the findings of a hooks directory.
type LintReport struct {
	// Hooks is how many files are hooks.
	Hooks    int            `json:"hooks"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Findings []lint.Finding `json:"findings"`
	// Roles are manifests with the permissions that are missing in the cluster.
	Roles string `json:"roles,omitempty"`
}

// WithoutNotes returns the report with problems only.
func (r LintReport) WithoutNotes() LintReport {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f lint.Finding) bool { return f.Level == lint.Note })
	return r
}

// linter checks one hooks directory.
type linter struct {
	opts     Options
	lint     LintOptions
	discover hookset.Options
	programs programs
	// shown is the directory as the user wrote it, root the same without links.
	shown, root string
	// sources are the texts of all files that can be read, by their names below root, and libraries those that others source.
	sources   map[string]script.Source
	libraries lint.Libraries
}

// Lint checks the hooks and the test files below o.HooksDir.
func Lint(ctx context.Context, o Options, options LintOptions) (report LintReport, err error) {
	l := &linter{shown: o.HooksDir, lint: options}
	if info, err := os.Stat(o.HooksDir); err != nil {
		return report, fmt.Errorf("cannot open the hooks directory: %w", err)
	} else if !info.IsDir() {
		return report, fmt.Errorf("%s is not a directory: name the directory of the hooks", o.HooksDir)
	}
	if o.HooksDir, err = filepath.Abs(o.HooksDir); err != nil {
		return report, err
	}
	dir, err := prepare(&o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l.opts, l.programs = o, programs{o.Env, process.New(process.Options{})}
	if l.discover, err = discovery(o).WithTenants(); err != nil {
		return report, err
	}

	root, entries, err := hookset.Entries(o.HooksDir)
	if err != nil {
		return report, err
	}
	l.root = root
	l.read()
	answers := l.all(ctx, entries)
	if err := ctx.Err(); err != nil {
		return report, err
	}
	report.Findings = []lint.Finding{} // a list, also in JSON
	for i, e := range entries {
		if e.Skipped == nil {
			report.Hooks++
		}
		report.Findings = append(report.Findings, answers[i].findings...)
	}
	report.Findings = append(report.Findings, l.together(answers)...)
	report.Findings = append(report.Findings, l.testedBindings(entries, answers)...)
	if options.Cluster {
		found, roles, err := l.inCluster(ctx, answers, dir)
		if err != nil {
			return report, err
		}
		report.Findings, report.Roles = append(report.Findings, found...), roles
	}
	if report.Hooks == 0 {
		// The operator would start, so this is a warning.
		report.Findings = append(report.Findings, lint.Finding{Path: l.shown, Level: lint.Warning, Message: "no hooks found",
			Hint: "put executable files there, or name another directory"})
	}
	lint.Sort(report.Findings)
	for _, f := range report.Findings {
		switch f.Level {
		case lint.Error:
			report.Errors++
		case lint.Warning:
			report.Warnings++
		}
	}
	return report, nil
}

// linted is what came of one entry.
type linted struct {
	findings []lint.Finding
	// answer has the hook, if it could be loaded, source its text.
	answer hookset.Answer
	source script.Source
}

// maxSource is the size above which a file is not read: a script is never that large.
const maxSource = 4 << 20

// read reads all files, because a file may be sourced by another one. What cannot be read is reported where it is checked.
func (l *linter) read() {
	l.sources = map[string]script.Source{}
	var all []script.Source
	_ = filepath.WalkDir(l.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case path != l.root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
			return nil
		}
		name, err := filepath.Rel(l.root, path)
		if err != nil {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil {
			l.sources[name] = script.Source{Path: l.show(name), Text: text}
			all = append(all, l.sources[name])
		}
		return nil
	})
	l.libraries = lint.FindLibraries(all)
	for name, s := range l.sources {
		_, s.SourcedIn = l.libraries.Of(name)
		l.sources[name] = s
	}
}

// all checks all entries concurrently: the time goes to the config calls.
func (l *linter) all(ctx context.Context, entries []hookset.Entry) []linted {
	results := make([]linted, len(entries))
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	var checks sync.WaitGroup
	for i, e := range entries {
		slots <- struct{}{}
		checks.Go(func() {
			defer func() { <-slots }()
			switch {
			case e.Skipped == nil:
				results[i] = l.hook(ctx, e.File)
			case e.Dir && e.Skipped.Cause == hookset.Library:
				results[i].findings = append(results[i].findings, l.skipped(e, lint.Note, ""))
				results[i].findings = append(results[i].findings, l.library(ctx, e)...)
			default:
				results[i].findings = l.file(ctx, e)
			}
		})
	}
	checks.Wait()
	return results
}

func (l *linter) show(name string) string { return filepath.Join(l.shown, name) }

func (l *linter) skipped(e hookset.Entry, level lint.Level, hint string) lint.Finding {
	name := l.show(e.Name)
	if e.Dir {
		name += "/"
	}
	return lint.Finding{Path: name, Level: level, Message: "skipped: " + e.Skipped.String(), Hint: hint}
}

// file checks one that is no hook.
func (l *linter) file(ctx context.Context, e hookset.Entry) []lint.Finding {
	if e.Skipped.Cause == hookset.Extension && strings.HasSuffix(e.Name, testfile.Suffix) {
		return l.testFile(e.Path, e.Name)
	}
	switch e.Skipped.Cause {
	case hookset.Library, hookset.Unusable:
		return []lint.Finding{l.skipped(e, lint.Warning, "")}
	case hookset.NotExecutable:
	default:
		return []lint.Finding{l.skipped(e, lint.Note, "")}
	}
	s, err := l.source(e.Path, e.Name)
	if err != nil {
		return []lint.Finding{unreadable(l.show(e.Name), err)}
	}
	f := lint.Finding{Path: s.Path, Level: lint.Warning, Message: "skipped: it is not executable", Hint: "if it is a hook: chmod +x " + s.Path}
	if by, _ := l.libraries.Of(e.Name); len(by) > 0 {
		f = lint.Finding{Path: s.Path, Message: "library: sourced by " + strings.Join(by, ", ")}
	} else if s.LooksLikeHook() {
		f.Level, f.Message, f.Hint = lint.Error, "it looks like a hook, but it is not executable and never runs", "chmod +x "+s.Path
	}
	return append([]lint.Finding{f}, l.syntax(ctx, s, e.Path)...)
}

// testFile checks a test file as test does before it runs a case.
func (l *linter) testFile(path, name string) (found []lint.Finding) {
	s, err := l.source(path, name)
	if err != nil {
		return []lint.Finding{unreadable(l.show(name), err)}
	}
	f, problems := testfile.Parse(path, s.Text)
	for _, p := range problems {
		found = append(found, lint.Finding{Path: s.Path, Line: p.Line, Column: p.Column, Level: lint.Error, Message: p.Message, Hint: p.Hint})
	}
	if len(problems) > 0 {
		return found
	}
	if _, err := f.FindHook(); err != nil {
		return []lint.Finding{{Path: s.Path, Line: 1, Column: 1, Level: lint.Error, Message: err.Error()}}
	}
	if found = missingFiles(s, f); len(found) > 0 {
		return found
	}
	return []lint.Finding{{Path: s.Path, Message: fmt.Sprintf("tests: %d", len(f.Cases))}}
}

// missingFiles finds files that cases name and that are not there, each once.
func missingFiles(s script.Source, f *testfile.File) (found []lint.Finding) {
	seen := map[string]bool{}
	for _, c := range f.Cases {
		files, programs := c.Files()
		for _, path := range append(files, programs...) {
			if seen[path] {
				continue
			}
			seen[path] = true
			one := lint.Finding{Path: s.Path, Line: lineOf(s.Text, c.Line, filepath.Base(path)), Level: lint.Error}
			written, err := filepath.Rel(filepath.Dir(f.Path), path)
			if err != nil {
				written = path
			}
			if _, err := os.Stat(path); err != nil {
				one.Message, one.Hint = fmt.Sprintf("there is no file %s", written), "paths are relative to the test file"
				found = append(found, one)
			} else if slices.Contains(programs, path) && !testfile.IsExecutable(path) {
				one.Message, one.Hint = written+" is not an executable file", "chmod +x "+written
				found = append(found, one)
			}
		}
	}
	return found
}

// lineOf is the line with a word: of a case that begins in a line, or else of what all cases have.
func lineOf(text []byte, from int, word string) int {
	lines := strings.Split(string(text), "\n")
	for i := from - 1; i < len(lines); i++ {
		if strings.Contains(lines[i], word) {
			return i + 1
		}
	}
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, word) }); i >= 0 {
		return i + 1
	}
	return from
}

// testedBindings finds schedules and bindings that cases name and that the hook does not have.
func (l *linter) testedBindings(entries []hookset.Entry, answers []linted) (found []lint.Finding) {
	hooks := map[string]*hook.Hook{}
	for i, e := range entries {
		if h := answers[i].answer.Hook; h != nil {
			hooks[e.Path] = h
		}
	}
	for _, e := range entries {
		if e.Skipped == nil || e.Skipped.Cause != hookset.Extension || !strings.HasSuffix(e.Name, testfile.Suffix) {
			continue
		}
		s, err := l.source(e.Path, e.Name)
		if err != nil {
			continue // it is reported elsewhere
		}
		f, problems := testfile.Parse(e.Path, s.Text)
		path, err := f.FindHook()
		if h := hooks[path]; h != nil && err == nil && len(problems) == 0 {
			found = append(found, unknownBindings(s, f, h)...)
		}
	}
	return found
}

func unknownBindings(s script.Source, f *testfile.File, h *hook.Hook) (found []lint.Finding) {
	var names, schedules []string
	ticks := map[string]bool{"": true}
	for a, b := range h.Bindings() {
		names = append(names, b.Name)
		if a.Kind == hook.OnSchedule {
			schedules = append(schedules, b.Name)
			ticks[b.Name], ticks[h.Schedules[a.Index].Crontab] = true, true
		}
	}
	add := func(line int, key, name string, known []string) {
		one := lint.Finding{Path: s.Path, Line: line, Level: lint.Error, Message: fmt.Sprintf("%s: the hook has no %q", key, name),
			Hint: "it has " + strings.Join(known, ", ")}
		if len(known) == 0 {
			one.Hint = "it has none"
		}
		found = append(found, one)
	}
	for _, c := range f.Cases {
		if !ticks[c.Tick] {
			add(lineOf(s.Text, c.Line, c.Tick), "tick", c.Tick, schedules)
		}
		if c.Binding != "" && !slices.Contains(names, c.Binding) {
			add(lineOf(s.Text, c.Line, c.Binding), "binding", c.Binding, names)
		}
		if c.Startup && h.OnStartup == nil {
			found = append(found, lint.Finding{Path: s.Path, Line: c.Line, Level: lint.Error, Message: "startup: the hook has no onStartup",
				Hint: "remove the case, or add the binding"})
		}
	}
	return found
}

// library checks the scripts below a directory for shared code.
func (l *linter) library(ctx context.Context, e hookset.Entry) (found []lint.Finding) {
	err := filepath.WalkDir(e.Path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(l.root, path)
		if err != nil {
			return err
		}
		s, err := l.source(path, name)
		switch {
		case err != nil:
			found = append(found, unreadable(l.show(name), err))
		case strings.HasSuffix(name, testfile.Suffix):
			found = append(found, l.testFile(path, name)...)
		default:
			found = append(found, l.syntax(ctx, s, path)...)
		}
		return nil
	})
	if err != nil {
		found = append(found, unreadable(l.show(e.Name), err))
	}
	return found
}

func (l *linter) source(path, name string) (script.Source, error) {
	if s, ok := l.sources[name]; ok {
		return s, nil
	}
	text, err := os.ReadFile(path)
	return script.Source{Path: l.show(name), Text: text}, err
}

func unreadable(path string, err error) lint.Finding {
	return lint.Finding{Path: path, Level: lint.Error, Message: "cannot read it: " + err.Error()}
}

func (l *linter) syntax(ctx context.Context, s script.Source, file string) []lint.Finding {
	return append(lint.Shell(ctx, s, file, l.programs.check), lint.Python(ctx, s, file, l.programs.check)...)
}

// hook checks a hook file and its configuration.
func (l *linter) hook(ctx context.Context, f hookset.File) (result linted) {
	s, err := l.source(f.Path, f.Name)
	if err != nil {
		// The operator needs no permission to read what the system can execute.
		result.findings = []lint.Finding{{Path: l.show(f.Name), Level: lint.Warning,
			Message: "cannot read it, its syntax is not checked: " + err.Error()}}
		s = script.Source{Path: l.show(f.Name)}
	} else {
		result.findings = append(lint.Start(s, l.programs.exists), l.syntax(ctx, s, f.Path)...)
		for _, found := range result.findings {
			if found.Level == lint.Error {
				return result // the config call would fail because of this
			}
		}
	}
	if l.lint.NoRun {
		result.findings = append(result.findings, lint.Finding{Path: s.Path, Message: "hook: config call skipped (--no-run)"})
		return result
	}
	answer, err := hookset.Ask(ctx, l.discover, l.root, f)
	if err != nil {
		result.findings = append(append(result.findings, l.failed(f.Name, s, answer, err)...), l.warnings(s, answer)...)
		return result
	}
	result.answer, result.source = answer, s
	result.findings = append(result.findings, lint.Finding{Path: s.Path, Message: "hook: " + hookset.Summary(answer.Hook)})
	result.findings = append(result.findings, l.warnings(s, answer)...)
	for _, found := range lint.Hook(s, answer.Hook, hookset.ContextsOf(l.root, l.opts.HooksDir, f.Name)) {
		if found.Path != s.Path { // in a library
			found.Path = l.show(found.Path)
		}
		result.findings = append(result.findings, found)
	}
	for _, u := range lint.Unselectives(answer.Hook) {
		line, column := l.place(s, answer, u.Path, "")
		result.findings = append(result.findings, lint.Finding{Path: s.Path, Line: line, Column: column, Level: lint.Warning, Message: u.String(),
			Hint: "add namespace.labelSelector, labelSelector or matchConditions, or failurePolicy: Ignore"})
	}
	if text := lastLines(answer.Stderr, 3); text != "" {
		result.findings = append(result.findings, lint.Finding{Path: s.Path, Message: "the call with --config succeeded, but wrote to stderr: " +
			text, Hint: "has a command failed? set -e ends the script then"})
	}
	for i, k := range answer.Hook.Kubernetes {
		if advice := rbac.Advice(k.APIVersion, k.Kind); advice != "" && !l.lint.Cluster {
			line, column := l.place(s, answer, fmt.Sprintf("kubernetes[%d].kind", i), "")
			result.findings = append(result.findings, lint.Finding{Path: s.Path, Line: line, Column: column, Level: lint.Warning,
				Message: fmt.Sprintf("binding %q: %s", k.Name, advice)})
		}
	}
	for _, f := range slices.Concat(resources(answer.Hook), intervals(answer.Hook), shards(answer.Hook)) {
		f.Line, f.Column = l.place(s, answer, f.Path, "")
		f.Path = s.Path
		result.findings = append(result.findings, f)
	}
	return result
}

// resources finds kinds in the rules of webhooks, where resources belong: the API server accepts them, and they match nothing. Paths are
// those of the configuration.
func resources(h *hook.Hook) (found []lint.Finding) {
	for _, list := range []struct {
		key      string
		bindings []hook.Admission
	}{{"kubernetesMutating", h.Mutating}, {"kubernetesValidating", h.Validating}} {
		for i, b := range list.bindings {
			for j, rule := range b.Rules {
				for k, resource := range rule.Resources {
					if plural := rbac.Plural(rule.APIGroups, resource); plural != "" {
						found = append(found, lint.Finding{Path: fmt.Sprintf("%s[%d].rules[%d].resources[%d]", list.key, i, j, k), Level: lint.Warning,
							Message: fmt.Sprintf("binding %q: %q is a kind, not a resource, and matches nothing", b.Name, resource), Hint: "write " + plural})
					}
				}
			}
		}
	}
	return found
}

// intervals finds intervals that are shorter than a second, or no whole seconds.
func intervals(h *hook.Hook) (found []lint.Finding) {
	for i, b := range h.Schedules {
		text, is := strings.CutPrefix(b.Crontab, "@every ")
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if whole := max(time.Second, d.Truncate(time.Second)); is && err == nil && whole != d {
			found = append(found, lint.Finding{Path: fmt.Sprintf("schedule[%d].crontab", i), Level: lint.Warning,
				Message: fmt.Sprintf("%q means every %s: intervals are whole seconds", b.Crontab, whole), Hint: "write @every " + whole.String()})
		}
	}
	return found
}

// shards finds what hooks with shardBy get with --shards that may surprise.
func shards(h *hook.Hook) (found []lint.Finding) {
	for _, w := range hookset.ShardWarnings(h) {
		path, _, _ := strings.Cut(w.Path, " ")
		found = append(found, lint.Finding{Path: path, Level: lint.Warning, Message: w.String()})
	}
	for i, b := range h.Schedules {
		if h.Settings.ShardBy != "" && len(b.Includes) == 0 {
			found = append(found, lint.Finding{Path: fmt.Sprintf("schedule[%d]", i), Level: lint.Warning,
				Message: fmt.Sprintf("binding %q includes no snapshots, and settings.shardBy is %s: with --shards each replica runs it, "+
					"for nothing of its own",
					b.Name, h.Settings.ShardBy),
				Hint: "add includeSnapshotsFrom, or move it to a hook without shardBy, which one replica runs"})
		}
	}
	return found
}

func (l *linter) warnings(s script.Source, answer hookset.Answer) (found []lint.Finding) {
	for _, w := range answer.Warnings {
		line, column := l.place(s, answer, w.Path, w.Problem)
		found = append(found, lint.Finding{Path: s.Path, Line: line, Column: column, Level: lint.Warning,
			Message: lint.InFile(s, answer.Stdout, w.String())})
	}
	return found
}

// failed returns the findings for the error of a config call.
func (l *linter) failed(name string, s script.Source, answer hookset.Answer, err error) (found []lint.Finding) {
	var config *wire.ConfigError
	var call *hookset.CallError
	switch {
	case errors.As(err, &config):
		for _, v := range config.Violations {
			line, column := l.place(s, answer, v.Path, v.Problem)
			hint := v.Hint
			v.Hint = ""
			if v.Path == "" {
				v.Problem = lint.InFile(s, answer.Stdout, v.Problem) + shownLine(answer.Stdout, v.Problem)
			}
			found = append(found, lint.Finding{Path: s.Path, Line: line, Column: column, Level: lint.Error, Message: v.String(), Hint: hint})
		}
		if text := lastLines(answer.Stderr, 5); text != "" {
			found[0].Message += "; it wrote to stderr: " + text
		}
	case errors.As(err, &call):
		message := "the call with --config failed: " + call.Err.Error()
		if text := lastLines(call.Stderr, 5); text != "" {
			message += "; it wrote to stderr: " + text
		}
		f := lint.Finding{Path: s.Path, Level: lint.Error, Message: message}
		if by, _ := l.libraries.Of(name); len(by) > 0 {
			f.Hint = "if it is only sourced, by " + strings.Join(by, ", ") + ": chmod -x " + s.Path
		}
		if hint := elsewhere(l.libraries, s.Path, l.root); hint != "" {
			f.Level, f.Hint, f.Message = lint.Warning, hint, "not checked: "+message
		}
		found = append(found, f)
	default:
		found = append(found, lint.Finding{Path: s.Path, Level: lint.Error, Message: err.Error()})
	}
	return found
}

func (l *linter) place(s script.Source, answer hookset.Answer, path, problem string) (line, column int) {
	line, column = wire.Locate(answer.Stdout, path, problem)
	return lint.Place(s, answer.Stdout, line, column)
}

// shownLine is the line of the output that a syntax error is about.
func shownLine(output []byte, problem string) string {
	at, _ := wire.Locate(output, "", problem)
	lines := strings.Split(string(output), "\n")
	if at < 1 || at > len(lines) {
		return ""
	}
	return fmt.Sprintf(" (%q)", strings.TrimSpace(lines[at-1]))
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// together checks the hooks against each other.
func (l *linter) together(all []linted) (found []lint.Finding) {
	var hooks []*hook.Hook
	byName := map[string]linted{}
	for _, one := range all {
		if h := one.answer.Hook; h != nil {
			hooks = append(hooks, h)
			byName[h.Name] = one
		}
	}
	for _, err := range hookset.Check(hooks, true) {
		one := byName[err.Hook]
		found = append(found, l.failed(err.Hook, one.source, hookset.Answer{Stdout: one.answer.Stdout}, err)...)
	}
	for _, c := range admission.Conflicts(hooks) {
		one := byName[c.Hook]
		line, column := l.place(one.source, one.answer, c.Place, "")
		found = append(found, lint.Finding{Path: l.show(c.Hook), Line: line, Column: column, Level: lint.Error, Message: c.Error()})
	}
	for _, d := range lint.Duplicates(hooks) {
		one := byName[d.Second.Name]
		line, column := l.place(one.source, one.answer, d.Path, "")
		found = append(found, lint.Finding{Path: l.show(d.Second.Name), Line: line, Column: column, Level: lint.Warning, Message: d.String(),
			Hint: "remove one of them"})
	}
	return found
}
