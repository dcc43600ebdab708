package main

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

var certificateName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9.-]*$`)

var instanceName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// The values of hook-home.
const (
	homeInherit = "inherit"
	homeOwn     = "own"
)

// maxLease bounds the name of the Lease, which is the value of a label of the Leases of shards.
const maxLease = 63

// check validates what the types of the settings do not. Each message names the flag and its variable, because either may be
// set.
func (s *settings) check() error {
	s.validating.FilesGiven = s.validating.Cert != "/validating-certs/tls.crt"
	s.conversion.FilesGiven = s.conversion.Cert != "/conversion-certs/tls.crt"
	var errs []error
	must := func(hold bool, flag, format string, args ...any) {
		if !hold {
			errs = append(errs, fmt.Errorf("configuration error: %s "+format, append([]any{s.named(flag)}, args...)...))
		}
	}
	oneOf := func(flag, value string, words ...string) {
		must(slices.Contains(words, value), flag, "%q: use one of %s", value, strings.Join(words, ", "))
	}
	port := func(flag, value string) {
		n, err := strconv.Atoi(value)
		must(err == nil && n >= 0 && n <= 65535, flag, "%q: use a number from 0 to 65535", value)
	}
	base := func(flag, value string) {
		u, err := url.Parse(value)
		must(value == "" || err == nil && u.Scheme == "https" && u.Hostname() != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil,
			flag, "%q: it looks like https://host:port or https://host:port/path", value)
	}
	above := func(flag string, value int) { must(value > 0, flag, "%d: it must be above 0", value) }
	lasts := func(flag string, value time.Duration) { must(value > 0, flag, "%s: it must be above 0", value) }
	limit := func(flag string, value int) {
		must(value >= 0, flag, "cannot be negative; 0 means no limit, or the default")
	}

	must(s.HooksDir != "", "hooks-dir", "is empty: name the directory of the hooks")
	oneOf("log-type", strings.ToLower(s.logType), "text", "json", "color")
	levels, level := telemetry.LevelNames(), strings.ToLower(s.logLevel)
	must(level == "warning" || slices.Contains(levels, level), "log-level", "%q: use one of %s", s.logLevel, strings.Join(levels, ", "))
	port("listen-port", s.listenPort)
	port("validating-webhook-listen-port", s.validating.port)
	port("conversion-webhook-listen-port", s.conversion.port)
	port("http-listen-port", s.httpPort)
	base("validating-webhook-url", s.validating.URL)
	base("conversion-webhook-url", s.conversion.URL)
	manager, instance := s.Webhooks.CertManager, s.Installation.Name
	must(manager == "" || certificateName.MatchString(manager), "webhook-cert-manager", "%q: write a Certificate as namespace/name", manager)
	must(instance == "" || len(instance) <= 100 && instanceName.MatchString(instance),
		"instance", "%q: use letters, digits, dots, dashes and underscores, at most 100", instance)
	for _, name := range s.Webhooks.ExcludeNamespaces {
		must(len(validation.IsDNS1123Label(name)) == 0, "webhook-exclude-namespaces", "%q: it is not the name of a namespace", name)
	}
	must((s.HTTP.Cert == "") == (s.HTTP.Key == ""), "http-server-cert", "and %s belong together: set both or none", s.named("http-server-key"))
	oneOf("v0-existing-objects", s.v0Existing, "add", "skip")
	oneOf("kubectl", s.Kubectl, kubectl.Auto, kubectl.Process)
	oneOf("hook-home", s.hookHome, homeInherit, homeOwn)
	oneOf("record", string(s.Record), string(hook.RecordFailures), string(hook.RecordAll), string(hook.RecordNone))
	oneOf("validating-webhook-failure-policy", s.Webhooks.FailurePolicy, "Fail", "Ignore")
	must(len(s.Election.Lease) <= maxLease && len(validation.IsDNS1123Subdomain(s.Election.Lease)) == 0, "leader-election-lease",
		"%q: use at most %d lower-case letters, digits, dashes and dots, with a letter or a digit at both ends", s.Election.Lease, maxLease)
	n := s.Election.Shards
	must(n >= 1 && n <= shard.Max, "shards", "%d: use a number from 1 to %d", n, shard.Max)
	must(n <= 1 || n > shard.Max || !s.Election.Enabled, "shards", "excludes %s: set one of them", s.named("leader-election"))
	lasts("config-timeout", s.ConfigTimeout)
	lasts("shutdown-timeout", s.ShutdownTimeout)
	above("max-parked", s.MaxParked)
	above("http-parallel", s.HTTP.Parallel)
	above("http-body-limit", s.HTTP.BodyLimit)
	must(s.RetryMin > 0 && s.RetryMax >= s.RetryMin, "retry-min-delay", "%s and %s %s: the first must be above 0 and not above the second",
		s.RetryMin, s.named("retry-max-delay"), s.RetryMax)
	limit("hook-timeout", int(s.HookTimeout))
	limit("max-runs", s.MaxRuns)
	limit("spool-limit", s.SpoolLimit)
	limit("object-patcher-kube-client-timeout", int(s.Patches.Timeout))
	hidden := func(r rune) bool { return r < ' ' || r > '~' }
	must(!strings.ContainsFunc(s.Tracing.Token, hidden), "tracing-otlp-auth-token",
		"must have visible ASCII characters only: does it end with a line end?")
	for _, pattern := range s.HookEnv {
		_, err := path.Match(strings.TrimPrefix(pattern, "!"), "")
		must(err == nil && pattern != "" && pattern != "!", "hook-env",
			"%q is neither a name nor a glob: write for instance PATH, APP_* or !*_TOKEN", pattern)
	}
	return errors.Join(errs...)
}

// named is a setting as its flag and its variable.
func (s *settings) named(flag string) string {
	for _, row := range s.list {
		if row.flag == flag {
			return fmt.Sprintf("--%s (%s)", flag, row.env)
		}
	}
	return "--" + flag
}
