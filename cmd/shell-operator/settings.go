package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

// settings are all flags of the operator. Each has an environment variable, which the flag overrides.
type settings struct {
	// Options are what flags set as it is; options completes them by the fields below.
	app.Options

	hookHome                      string
	keepTmpFiles                  lenientBool
	logLevel, logType             string
	logNoTime, debugKubernetesAPI bool
	contextsPerRun                contextLimit
	v0Existing                    string
	listenAddress, listenPort     string
	httpAddress, httpPort         string
	validating, conversion        webhookServer

	debugSocket, debugHTTP string
	// debugSocketChosen reports that the path of the socket was set.
	debugSocketChosen bool
	// level is the level of the log, once there is a logger.
	level *slog.LevelVar

	env  map[string]string
	list []setting
}

// webhookServer are the flags of one of the two webhook servers.
type webhookServer struct {
	webhook.WebhookServer
	address, port string
}

// settings returns the rows of a server; prefix begins its flags, its files and the name of its Service.
func (w *webhookServer) settings(prefix, kind, port string) []setting {
	row := func(name string, bind func(*pflag.FlagSet, string), usage string) setting {
		flag := prefix + "-webhook-" + name
		return setting{flag: flag, env: variableOf(flag), bind: bind, usage: usage}
	}
	file := func(name string) string { return "/" + prefix + "-certs/" + name }
	of := "of " + kind + " webhooks"
	return []setting{
		row("service-name", text(&w.ServiceName, "shell-operator-"+prefix+"-svc"), "Service "+of),
		row("url", text(&w.URL, ""),
			"base URL "+of+" for the API server, instead of a Service; default outside a cluster: own address and the server's port"),
		row("server-cert", text(&w.Cert, file("tls.crt")), "certificate file "+of+"; without it the operator issues a certificate"),
		row("server-key", text(&w.Key, file("tls.key")), "key file of that certificate"),
		row("ca", text(&w.CA, file("ca.crt")), "CA file of that certificate"),
		row("client-ca", texts(&w.ClientCA), "CA file for client certificates "+of+" (repeatable); default: no client certificates"),
		row("listen-port", text(&w.port, port), "port "+of+"; 0 means a free one"),
		row("listen-address", text(&w.address, "0.0.0.0"), "address "+of),
	}
}

// setting is one row of the table of flags. By default env is the flag in upper case behind SHELL_OPERATOR_.
type setting struct {
	flag, env string
	bind      func(*pflag.FlagSet, string)
	usage     string
}

// variableOf is a flag as the name of a variable.
func variableOf(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

// settingGroup are settings of one subject.
type settingGroup struct {
	title    string
	settings []setting
}

func newSettings(environ []string) *settings {
	s := &settings{env: map[string]string{}}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			s.env[name] = value
		}
	}
	for _, g := range s.groups() {
		for _, row := range g.settings {
			row.env = cmp.Or(row.env, "SHELL_OPERATOR_"+variableOf(row.flag))
			s.list = append(s.list, row)
		}
	}
	return s
}

// groups lists every flag in the order of the help text.
func (s *settings) groups() []settingGroup {
	return []settingGroup{
		{"General", []setting{
			{flag: "tmp-dir", bind: text(&s.TmpDir, s.tmpDir()),
				usage: "directory for temporary files; its last element is created if it is missing, empty means a new directory " +
					"in $TMPDIR or /tmp; default: /tmp/shell-operator in a Pod, otherwise empty"},
			{flag: "run-dir", bind: text(&s.RunDir, ""), usage: "directory for the files of runs, such as a tmpfs; default: that of --tmp-dir"},
			{flag: "shutdown-timeout", bind: duration(&s.ShutdownTimeout, 25*time.Second),
				usage: "time from the first signal to the end; running hooks get SIGTERM after four fifths of it, SIGKILL at its end"},
			{flag: "dry-run", bind: truth(&s.Patches.DryRun, false),
				usage: "send the operations of hooks as server-side dry run and register no webhooks; kubectl in hooks is not affected. " +
					"With uninstall: log what it would do"},
			{flag: "namespace", bind: text(&s.Installation.Namespace, ""),
				usage: "namespace of the webhook Services, the Lease and the records of sets; default: that of the Pod, " +
					"or of the kubeconfig's context"},
			{flag: "instance", bind: text(&s.Installation.Name, ""),
				usage: "name of this installation, by which it recognizes what it has written; default: NAMESPACE.LEASE"},
		}},
		{"Hooks", []setting{
			{flag: "hooks-dir", bind: text(&s.HooksDir, "hooks"), usage: "directory of the hooks"},
			{flag: "watch-hooks", bind: truth(&s.WatchHooks, false),
				usage: "reload hooks when files in the hooks directory change; scripts of mounted volumes need no execute permission"},
			{flag: "config-timeout", bind: duration(&s.ConfigTimeout, time.Minute), usage: "time limit of a hook's --config call"},
			{flag: "hook-timeout", bind: duration(&s.HookTimeout, 0),
				usage: "time limit of a run, for hooks without settings.executionTimeout; 0 means none"},
			{flag: "contexts-per-run", bind: limit(&s.contextsPerRun),
				usage: "maximum of binding contexts per run, for hooks without settings.contextsPerRun; 0 means no limit, auto means 1 for hooks " +
					"whose script reads only the first one"},
			{flag: "v0-existing-objects", bind: text(&s.v0Existing, "add"),
				usage: "objects that exist at the start, for hooks of configuration version 0: add delivers each as an add event, skip delivers none"},
			{flag: "hook-env", bind: texts(&s.HookEnv),
				usage: "variables that hooks inherit, as names or globs such as APP_*; prefix with ! to exclude (repeatable); default: all"},
			{flag: "hook-home", bind: text(&s.hookHome, homeInherit),
				usage: "HOME of hooks: inherit that of the operator, or own, a directory of each hook that is kept between its runs"},
			{flag: "kubectl", bind: text(&s.Kubectl, kubectl.Auto),
				usage: "kubectl in hooks without settings.kubectl: auto starts a trimmed one for most calls, process never does"},
			{flag: "workers", bind: truth(&s.Workers, true),
				usage: "let workers serve the runs of hooks with settings.worker; false starts a process for each run of every hook"},
			{flag: "jq-library-path", env: "JQ_LIBRARY_PATH", bind: texts(&s.JQLibraryPath),
				usage: "directory of jq modules for jqFilter (repeatable)"},
			{flag: "keep-managed-fields", bind: truth(&s.KeepManagedFields, true),
				usage: "keep metadata.managedFields in objects, for bindings without keepManagedFields"},
			{flag: "retry-min-delay", bind: duration(&s.RetryMin, 5*time.Second), usage: "back-off before the first retry of a failed run"},
			{flag: "retry-max-delay", bind: duration(&s.RetryMax, 32*time.Second), usage: "maximum back-off before a retry"},
			{flag: "max-runs", bind: number(&s.MaxRuns, 0),
				usage: "maximum of concurrent runs of all queues together; webhooks and HTTP requests do not count; 0 means no limit"},
			{flag: "max-parked", bind: number(&s.MaxParked, 10_000), usage: "maximum of binding contexts in parked tasks; the oldest are dropped"},
			{flag: "spool-limit", bind: number(&s.SpoolLimit, 512<<20),
				usage: "bytes of waiting objects below --tmp-dir from which on a Modified event replaces the one of its object that waits; " +
					"0 means no limit"},
			{flag: "record", bind: text((*string)(&s.Record), string(hook.RecordFailures)),
				usage: "runs that are recorded, for hooks without settings.record: failures (the last failed run of each hook), all or none; " +
					"none overrides the hooks"},
		}},
		{"Cluster", []setting{
			{flag: "kube-config", env: "KUBE_CONFIG", bind: text(&s.Cluster.Kubeconfig, ""),
				usage: "kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount"},
			{flag: "kube-context", env: "KUBE_CONTEXT", bind: text(&s.Cluster.Context, ""), usage: "context of the kubeconfig"},
			{flag: "kube-server", env: "KUBE_SERVER", bind: text(&s.Cluster.Server, ""),
				usage: "address of the API server; overrides the kubeconfig"},
			{flag: "kube-client-qps", env: "KUBE_CLIENT_QPS", bind: float(&s.Cluster.QPS, 100), usage: "requests per second to the API server"},
			{flag: "kube-client-burst", env: "KUBE_CLIENT_BURST", bind: number(&s.Cluster.Burst, 200), usage: "request burst to the API server"},
			{flag: "object-patcher-kube-client-qps", env: "OBJECT_PATCHER_KUBE_CLIENT_QPS", bind: float(&s.Patches.QPS, 1000),
				usage: "requests per second for operations of hooks"},
			{flag: "object-patcher-kube-client-burst", env: "OBJECT_PATCHER_KUBE_CLIENT_BURST", bind: number(&s.Patches.Burst, 5000),
				usage: "request burst for operations of hooks"},
			{flag: "object-patcher-kube-client-timeout", env: "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT",
				bind:  duration(&s.Patches.Timeout, 10*time.Second),
				usage: "time limit of one request for an operation; 0 means none"},
		}},
		{"Log", []setting{
			{flag: "log-level", env: "LOG_LEVEL", bind: text(&s.logLevel, "info"), usage: "trace, debug, info, warn, error or fatal"},
			{flag: "log-type", env: "LOG_TYPE", bind: text(&s.logType, "text"), usage: "text, json or color"},
			{flag: "log-no-time", env: "LOG_NO_TIME", bind: truth(&s.logNoTime, false), usage: "omit the time from log records"},
			{flag: "log-proxy-hook-json", env: "LOG_PROXY_HOOK_JSON", bind: truth(&s.ProxyHookJSON, false),
				usage: "merge JSON objects that hooks print into log records"},
		}},
		{"Metrics, health and status page", []setting{
			{flag: "listen-address", bind: text(&s.listenAddress, "0.0.0.0"), usage: "address of metrics, health and status page"},
			{flag: "listen-port", bind: text(&s.listenPort, "9115"), usage: "port of metrics, health and status page; 0 means a free one"},
			{flag: "prometheus-metrics-prefix", bind: text(&s.Metrics.Prefix, "shell_operator_"), usage: "prefix of the operator's own metrics"},
			{flag: "restart-hook-counters", bind: truth(&s.Metrics.RestartHookCounters, false),
				usage: "reset counters and histograms of hooks with each run that names their group"},
			{flag: "profiling", bind: truth(&s.Profiling, false), usage: "serve profiles below /debug/pprof"},
			{flag: "kubernetes-events", bind: truth(&s.KubernetesEvents, true),
				usage: "report failing hooks as Events on the operator's Pod, and exhausted tasks on their objects"},
		}},
		{"Webhooks", slices.Concat([]setting{
			{flag: "webhook-secret", bind: text(&s.Webhooks.SecretName, "shell-operator-webhook"),
				usage: "Secret of the CA of webhook certificates, and of the secret of webhook paths"},
			{flag: "webhook-path-secret-file", bind: text(&s.Webhooks.PathSecretFile, ""),
				usage: "file with the secret of webhook paths, for registrations that others write; default: it is in the Secret"},
			{flag: "webhook-cert-manager", bind: text(&s.Webhooks.CertManager, ""),
				usage: "cert-manager Certificate, as namespace/name, whose CA cert-manager injects; certificates are then read from files"},
			{flag: "webhook-exclude-namespaces", bind: texts(&s.Webhooks.ExcludeNamespaces),
				usage: "namespaces that admission webhooks do not review (repeatable); bindings that select kubernetes.io/metadata.name themselves " +
					"are not affected"},
			{flag: "webhook-exclude-users", bind: texts(&s.Webhooks.ExcludeUsers),
				usage: "users whose requests admission webhooks do not review (repeatable)"},
			{flag: "webhook-exclude-groups", bind: texts(&s.Webhooks.ExcludeGroups),
				usage: "groups whose members' requests admission webhooks do not review, such as system:nodes (repeatable)"},
			{flag: "webhook-client-names", bind: texts(&s.Webhooks.ClientNames),
				usage: "accepted names of client certificates, as their common name or a DNS name (repeatable); default: all certificates of " +
					"the client CA"},
			{flag: "validating-webhook-configuration-name", env: "VALIDATING_WEBHOOK_CONFIGURATION_NAME",
				bind: text(&s.Webhooks.ConfigurationName, "shell-operator-hooks"), usage: "prefix of the names of the webhook configurations"},
			{flag: "validating-webhook-failure-policy", env: "VALIDATING_WEBHOOK_FAILURE_POLICY", bind: text(&s.Webhooks.FailurePolicy, "Fail"),
				usage: "failure policy of bindings without one, Fail or Ignore"},
		}, s.validating.settings("validating", "admission", "9680"), s.conversion.settings("conversion", "conversion", "9681"))},
		{"HTTP hooks", []setting{
			{flag: "http-listen-address", bind: text(&s.httpAddress, "127.0.0.1"),
				usage: "address of HTTP hooks; beyond loopback, a certificate and ServiceAccount tokens are required"},
			{flag: "http-listen-port", bind: text(&s.httpPort, "9690"), usage: "port of HTTP hooks; 0 means a free one"},
			{flag: "http-server-cert", bind: text(&s.HTTP.Cert, ""),
				usage: "certificate file of HTTP hooks, re-read when it changes; default: no TLS, on loopback only"},
			{flag: "http-server-key", bind: text(&s.HTTP.Key, ""), usage: "key file of that certificate"},
			{flag: "http-authentication", bind: truth(&s.HTTP.Authentication, false),
				usage: "require ServiceAccount tokens for HTTP hooks on loopback, too"},
			{flag: "http-parallel", bind: number(&s.HTTP.Parallel, 16), usage: "maximum of concurrent HTTP requests per hook"},
			{flag: "http-body-limit", bind: number(&s.HTTP.BodyLimit, 1<<20), usage: "maximum size of an HTTP request body, in bytes"},
		}},
		{"Leader election", []setting{
			{flag: "leader-election", bind: truth(&s.Election.Enabled, false), usage: "elect one replica to run hooks; all replicas serve webhooks"},
			{flag: "shards", bind: number(&s.Election.Shards, 1),
				usage: "number of replicas that share the objects of hooks with the setting shardBy, at most 64; 1 means that they do not"},
			{flag: "leader-election-lease", bind: text(&s.Election.Lease, "shell-operator"),
				usage: "name of the Lease; those of shards begin with it"},
			{flag: "leader-election-lease-duration",
				bind: duration(&s.Election.Duration, 15*time.Second),
				usage: "time without a renewal after which another replica may take over, in whole seconds; the leader renews the Lease in each " +
					"2/15 of it, and gives up after 2/3"},
		}},
		{"Tracing", []setting{
			{flag: "tracing-otlp-endpoint", env: "TRACING_OTLP_ENDPOINT", bind: text(&s.Tracing.Endpoint, ""),
				usage: "host:port of an OTLP/gRPC trace receiver, http://host:port of one without TLS; empty means no traces"},
			{flag: "tracing-otlp-auth-token", env: "TRACING_OTLP_AUTH_TOKEN", bind: text(&s.Tracing.Token, ""),
				usage: "bearer token for the receiver; prefer the variable, because flags are visible in the process list"},
			{flag: "tracing-otlp-ca", env: "TRACING_OTLP_CA", bind: text(&s.Tracing.CA, ""),
				usage: "CA file of the receiver; default: the CAs of the system"},
		}},
		{"Debugging", []setting{
			{flag: "debug-keep-tmp-files", env: "DEBUG_KEEP_TMP_FILES", bind: func(fs *pflag.FlagSet, name string) {
				fs.Var(&s.keepTmpFiles, name, "")
				fs.Lookup(name).NoOptDefVal = "true"
			}, usage: "keep the files of runs"},
			{flag: "debug-kubernetes-api", env: "DEBUG_KUBERNETES_API", bind: truth(&s.debugKubernetesAPI, false),
				usage: "log requests to the API server and answers with their bodies, Secrets included"},
			{flag: "debug-unix-socket", env: "DEBUG_UNIX_SOCKET", bind: text(&s.debugSocket, "/var/run/shell-operator/debug.socket"),
				usage: "socket of the debug API; if the default path cannot be used, it is in a private directory of the user"},
			{flag: "debug-http-addr", env: "DEBUG_HTTP_SERVER_ADDR", bind: text(&s.debugHTTP, ""),
				usage: "TCP address of the debug API, without authentication; :PORT means the loopback address"},
		}},
	}
}

// tmpDir returns the default of --tmp-dir. Outside of a Pod, another user can create a directory of a known name first.
func (s *settings) tmpDir() string {
	if s.env["KUBERNETES_SERVICE_HOST"] == "" {
		return ""
	}
	return "/tmp/shell-operator"
}

func (s *settings) addFlags(fs *pflag.FlagSet) {
	fs.SortFlags = false
	for _, row := range s.list {
		row.bind(fs, row.flag)
		f := fs.Lookup(row.flag)
		f.Usage = fmt.Sprintf("%s [$%s]", row.usage, row.env)
	}
}
