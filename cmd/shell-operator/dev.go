package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

func newDevCommand(s *settings, stdout io.Writer) *cobra.Command {
	d := &devSession{settings: s, out: &lockedWriter{w: stdout}}
	cmd := uses(&cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run the operator on hooks that you are writing",
		Long: `Check the hooks of a directory, by default that of --hooks-dir, and run the operator on the current cluster until Ctrl-C. Hooks are
reloaded when their files change. Their tests are run at the start and after changes. Events, runs and results are printed.

Without --apply, operations are sent as a server-side dry run, and no webhook is registered. This does not stop changes that hooks make
themselves, by kubectl for instance. With --apply, changes of objects stay after the end.

--testcluster starts a control plane, creates the objects of the YAML files in DIR except test files, and implies --apply. It is removed
at the end. "memory" is an API server in this process, not Kubernetes: it needs no program, and has no admission, defaults, controllers or
permissions; the objects of DIR/fixtures and of the directory manifests beside DIR, which init writes, are created, too. PATH is the program
testcluster.`,
		Example: `  shell-operator dev --testcluster memory hooks
  shell-operator dev hooks
  shell-operator dev --apply --kube-context kind-dev hooks
  shell-operator dev --testcluster bin/testcluster hooks`,
		Args:              upToOne("one directory"),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.HooksDir = args[0]
			}
			d.changed = cmd.Flags().Changed
			return d.run()
		},
	}, "hooks-dir", "kube-config", "kube-context", "hook-timeout", "log-level")
	cmd.Flags().BoolVar(&d.apply, "apply", false, "apply the operations of hooks and register webhooks")
	cmd.Flags().StringVar(&d.testcluster, "testcluster", "",
		`"memory", or a program that starts a control plane; it is removed at the end`)
	_ = cmd.MarkFlagFilename("testcluster")
	return cmd
}

// devSession is a session of development.
type devSession struct {
	*settings
	out         *lockedWriter
	apply       bool
	testcluster string
	changed     func(flag string) bool
	// private is a directory that is removed at the end.
	private string
}

// lockedWriter is written by several goroutines, line by line.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (d *devSession) run() error {
	if d.changed("testcluster") {
		if err := d.checkTestcluster(); err != nil {
			return err
		}
	}
	d.adjust()
	log := logger(d.settings, d.out)
	return operate(log, func(ctx, kill context.Context, watch watchdog) error { return d.session(ctx, kill, watch, log) }, d.ShutdownTimeout)
}

// checkTestcluster rejects a path without a control plane. An empty one must not mean the current cluster.
func (d *devSession) checkTestcluster() error {
	if d.testcluster == "" {
		return &hinted{errors.New("--testcluster is empty"),
			"write memory, or name the program testcluster; is the variable set?"}
	}
	return dev.CheckControlPlane(d.testcluster)
}

// adjust sets what is different in a session, unless the user has set it.
func (d *devSession) adjust() {
	d.apply = d.apply || d.testcluster != ""
	d.WatchHooks, d.Patches.DryRun, d.Election.Enabled, d.KubernetesEvents = true, !d.apply, false, false
	host, _ := os.Hostname() // without one, sessions of one cluster share a name
	name := "dev-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(host), "-"), "-")
	for flag, set := range map[string]func(){
		"log-level": func() { d.logLevel = "warn" }, "log-no-time": func() { d.logNoTime = true },
		"instance":    func() { d.Installation.Name = name },
		"listen-port": func() { d.listenPort = "0" }, "listen-address": func() { d.listenAddress = "127.0.0.1" },
		"http-listen-port":                      func() { d.httpPort = "0" },
		"validating-webhook-listen-port":        func() { d.validating.port = "0" },
		"conversion-webhook-listen-port":        func() { d.conversion.port = "0" },
		"validating-webhook-configuration-name": func() { d.Webhooks.ConfigurationName = "shell-operator-" + name },
	} {
		if !d.changed(flag) {
			set()
		}
	}
}

// notInNames is what names of webhook configurations do not have.
var notInNames = regexp.MustCompile(`[^a-z0-9-]+`)

// session checks, starts and ends everything in order. It returns when nothing is left.
func (d *devSession) session(ctx, kill context.Context, watch watchdog, log *slog.Logger) (err error) {
	if d.private, err = os.MkdirTemp("", "shell-operator-dev-"); err != nil {
		return fmt.Errorf("cannot make a temp directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.private)) }()
	if !d.changed("tmp-dir") {
		d.TmpDir = filepath.Join(d.private, "tmp")
	}
	if !d.changed("debug-unix-socket") {
		d.debugSocket, d.debugSocketChosen = filepath.Join(d.private, "debug.socket"), true
	}
	if err := d.announce(); err != nil {
		return err
	}
	report, err := dev.Lint(ctx, d.dev(), dev.LintOptions{})
	if err != nil {
		return err
	}
	if err := printReport(d.out, formatText, true, report); err != nil {
		return err
	}
	if report.Errors > 0 {
		return errFound{fmt.Sprintf("%s in %s: fix them, then start again", debug.Count(report.Errors, "error"), d.HooksDir)}
	}
	if d.testcluster == "" {
		return d.operator(ctx, kill, watch, log)
	}
	if d.testcluster == dev.InMemory && len(report.Webhooks) > 0 {
		fmt.Fprintf(d.out, "no admission and conversion requests for %s: they need a cluster, with --apply, or the program testcluster; "+
			"tests of them run\n", strings.Join(report.Webhooks, ", "))
	}
	own := dev.ControlPlane{Path: d.testcluster, Dir: filepath.Join(d.private, "cluster"), Env: os.Environ()}
	return own.Run(ctx, kill, func(ctx context.Context) error {
		d.Cluster.Kubeconfig, d.Cluster.Context, d.Cluster.Server = own.Kubeconfig(), "", ""
		n, err := dev.LoadObjects(ctx, d.Cluster, d.HooksDir, d.private)
		if err != nil {
			return err
		}
		places := []string{filepath.Join(d.HooksDir, "*.yaml")}
		if d.testcluster == dev.InMemory {
			more, from, err := dev.LoadExamples(ctx, d.Cluster, d.HooksDir, d.private)
			if err != nil {
				return err
			}
			n, places = n+more, append(places, from...)
		}
		fmt.Fprintf(d.out, "created %s of %s\n", debug.Count(n, "object"), strings.Join(places, ", "))
		fmt.Fprintln(d.out, nextEvent(own.Kubeconfig(), places[0]))
		return d.operator(ctx, kill, watch, log)
	})
}

// nextEvent is the way to the next event, with or without kubectl.
func nextEvent(kubeconfig, objects string) string {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return "kubectl is not on the PATH: install it for changes, or write objects to " + objects + " and start again; for other clients: " +
			"export KUBECONFIG=" + kubeconfig
	}
	return "for kubectl in another terminal: export KUBECONFIG=" + kubeconfig
}

// operator runs the operator and the tests of the hooks, and removes what was registered.
func (d *devSession) operator(ctx, kill context.Context, watch watchdog, log *slog.Logger) error {
	cl, err := kube.Connect(d.Cluster, d.private)
	if err != nil {
		return err
	}
	d.stayLocal(cl)
	fmt.Fprintf(d.out, "the hooks in %s are reloaded when they change; in another terminal: shell-operator status --debug-unix-socket %s\n",
		d.HooksDir, d.debugSocket)
	options := d.options(log)
	options.Watchdog, options.Webhooks.NoRegistration = watch, !d.apply || d.testcluster == dev.InMemory
	// The session ends as a whole, in particular when the operator cannot start.
	aside, end := context.WithCancel(ctx)
	var asides sync.WaitGroup
	options.Debug.Served = func() { asides.Go(func() { d.follow(aside) }) }
	options.Reloaded = func(err error) { asides.Go(func() { d.reloaded(aside, err) }) }
	asides.Go(func() {
		dev.FollowTests(aside, d.dev(), func(report dev.TestReport, err error) {
			if err != nil {
				fmt.Fprintf(d.out, "tests: %v\n", err)
				return
			}
			_ = printTests(d.out, formatText, report, false) // a terminal that is gone
			fmt.Fprintf(d.out, "tests: %s, %d failed\n", debug.Count(len(report.Cases), "case"), report.Failed)
		})
	})
	err = app.Run(ctx, kill, options)
	end()
	asides.Wait()
	if d.apply && d.testcluster == "" {
		err = errors.Join(err, d.unregister(ctx, webhook.Options{Cluster: cl, Webhooks: options.Webhooks, Log: log}))
	}
	return err
}

// reloaded prints what came of a reload: findings with their places, if it was rejected.
func (d *devSession) reloaded(ctx context.Context, rejected error) {
	if rejected == nil {
		fmt.Fprintln(d.out, "the hooks are reloaded")
		return
	}
	report, err := dev.Lint(ctx, d.dev(), dev.LintOptions{})
	if ctx.Err() != nil {
		return
	}
	if err != nil || report.Errors == 0 || printReport(d.out, formatText, true, report) != nil {
		fmt.Fprintln(d.out, rejected)
	}
	fmt.Fprintln(d.out, "the hooks are not reloaded, the previous ones stay active")
}

// unregisterTimeout limits the requests after a signal.
const unregisterTimeout = 10 * time.Second

// unregister removes webhook configurations. Without the permission, none was registered.
func (d *devSession) unregister(ctx context.Context, o webhook.Options) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	if err := webhook.Uninstall(ctx, o); err != nil && !kube.IsPermissionMissing(err) {
		return fmt.Errorf("cannot remove the webhook configurations %s-…: %w", d.Webhooks.ConfigurationName, err)
	}
	return nil
}

// stayLocal listens on loopback, unless the API server is elsewhere and has to reach the webhooks.
func (d *devSession) stayLocal(cl *kube.Cluster) {
	u, err := url.Parse(cl.Config.Host)
	if err != nil {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return
	}
	for flag, address := range map[string]*string{"validating-webhook-listen-address": &d.validating.address,
		"conversion-webhook-listen-address": &d.conversion.address} {
		if !d.changed(flag) {
			*address = "127.0.0.1"
		}
	}
}

// announce prints where the session works and what it may change.
func (d *devSession) announce() error {
	if d.testcluster == dev.InMemory {
		_, err := fmt.Fprintln(d.out,
			"an API server in memory, not Kubernetes: no admission, defaults, controllers or permissions; it is removed at the end")
		return err
	}
	where := "of " + d.testcluster + ", which is removed at the end"
	if d.testcluster == "" {
		cl, err := kube.Connect(d.Cluster, d.private)
		if err != nil {
			return err
		}
		where = cl.Config.Host
		if d.Cluster.Context != "" {
			where += " (context " + d.Cluster.Context + ")"
		}
	}
	mode := "dry run: the operator changes no object and registers no webhook. WARNING: dry run does not stop kubectl in hooks"
	if d.apply {
		mode = "apply: operations of hooks change objects, webhooks are registered until the end"
	}
	_, err := fmt.Fprintf(d.out, "cluster %s, %s\n", where, mode)
	return err
}

// follow prints runs as they happen.
func (d *devSession) follow(ctx context.Context) {
	body, err := debug.NewClient(d.place(), 10*time.Second).Get(ctx, "/tail.text")
	if err != nil {
		return // the operator has ended, and its error is printed
	}
	defer body.Close()
	_, _ = io.Copy(d.out, body)
}
