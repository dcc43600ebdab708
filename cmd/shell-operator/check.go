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

var homes = []string{homeInherit, homeOwn}

var recordModes = []string{string(hook.RecordFailures), string(hook.RecordAll), string(hook.RecordNone)}

// maxLease bounds the name of the Lease, which is the value of a label of the Leases of shards.
const maxLease = 63

// check validates what the types of the settings do not. Each message names the flag and its variable, because either may be
// set.
func (s *settings) check() error {
	s.validating.FilesGiven = s.validating.Cert != "/validating-certs/tls.crt"
	s.conversion.FilesGiven = s.conversion.Cert != "/conversion-certs/tls.crt"
	var errs []error
	wrong := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("configuration error: %s "+format, append([]any{s.named(flag)}, args...)...))
	}
	if s.HooksDir == "" {
		wrong("hooks-dir", "is empty: name the directory of the hooks")
	}
	if !slices.Contains([]string{"text", "json", "color"}, strings.ToLower(s.logType)) {
		wrong("log-type", "%q: use text, json or color", s.logType)
	}
	if level := strings.ToLower(s.logLevel); level != "warning" && !slices.Contains(telemetry.LevelNames(), level) {
		wrong("log-level", "%q: use one of %s", s.logLevel, strings.Join(telemetry.LevelNames(), ", "))
	}
	for _, port := range [][2]string{
		{"listen-port", s.listenPort}, {"validating-webhook-listen-port", s.validating.port},
		{"conversion-webhook-listen-port", s.conversion.port},
		{"http-listen-port", s.httpPort},
	} {
		if n, err := strconv.Atoi(port[1]); err != nil || n < 0 || n > 65535 {
			wrong(port[0], "%q: use a number from 0 to 65535", port[1])
		}
	}
	for _, base := range [][2]string{
		{"validating-webhook-url", s.validating.URL}, {"conversion-webhook-url", s.conversion.URL},
	} {
		if u, err := url.Parse(base[1]); base[1] != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
			u.Fragment != "" || u.User != nil) {
			wrong(base[0], "%q: it looks like https://host:port or https://host:port/path", base[1])
		}
	}
	if c := s.Webhooks.CertManager; c != "" && !certificateName.MatchString(c) {
		wrong("webhook-cert-manager", "%q: write a Certificate as namespace/name", c)
	}
	if i := s.Installation.Name; i != "" && (len(i) > 100 || !instanceName.MatchString(i)) {
		wrong("instance", "%q: use letters, digits, dots, dashes and underscores, at most 100", i)
	}
	for _, name := range s.Webhooks.ExcludeNamespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			wrong("webhook-exclude-namespaces", "%q: it is not the name of a namespace", name)
		}
	}
	if (s.HTTP.Cert == "") != (s.HTTP.Key == "") {
		wrong("http-server-cert", "and %s belong together: set both or none", s.named("http-server-key"))
	}
	for _, c := range []struct {
		flag, value, use string
		words            []string
	}{
		{"v0-existing-objects", s.v0Existing, "add or skip", []string{"add", "skip"}},
		{"kubectl", s.Kubectl, "auto or process", []string{kubectl.Auto, kubectl.Process}},
		{"hook-home", s.hookHome, "one of " + strings.Join(homes, ", "), homes},
		{"record", string(s.Record), "one of " + strings.Join(recordModes, ", "), recordModes},
		{"validating-webhook-failure-policy", s.Webhooks.FailurePolicy, "Fail or Ignore", []string{"Fail", "Ignore"}},
	} {
		if !slices.Contains(c.words, c.value) {
			wrong(c.flag, "%q: use %s", c.value, c.use)
		}
	}
	if l := s.Election.Lease; len(l) > maxLease || len(validation.IsDNS1123Subdomain(l)) > 0 {
		wrong("leader-election-lease", "%q: use at most %d lower-case letters, digits, dashes and dots, with a letter or a digit at both ends", l,
			maxLease)
	}
	switch n := s.Election.Shards; {
	case n < 1 || n > shard.Max:
		wrong("shards", "%d: use a number from 1 to %d", n, shard.Max)
	case n > 1 && s.Election.Enabled:
		wrong("shards", "excludes %s: set one of them", s.named("leader-election"))
	}
	for _, n := range []struct {
		flag  string
		value any
		above bool
	}{
		{"body-budget", s.Webhooks.BodyBudget, s.Webhooks.BodyBudget > 0}, {"config-timeout", s.ConfigTimeout, s.ConfigTimeout > 0},
		{"shutdown-timeout", s.ShutdownTimeout, s.ShutdownTimeout > 0},
		{"max-parked", s.MaxParked, s.MaxParked > 0}, {"http-parallel", s.HTTP.Parallel, s.HTTP.Parallel > 0},
		{"http-body-limit", s.HTTP.BodyLimit, s.HTTP.BodyLimit > 0},
	} {
		if !n.above {
			wrong(n.flag, "%v: it must be above 0", n.value)
		}
	}
	if s.RetryMin <= 0 || s.RetryMax < s.RetryMin {
		wrong("retry-min-delay", "%s and %s %s: the first must be above 0 and not above the second", s.RetryMin,
			s.named("retry-max-delay"), s.RetryMax)
	}
	for _, n := range []struct {
		flag     string
		negative bool
	}{
		{"hook-timeout", s.HookTimeout < 0}, {"max-runs", s.MaxRuns < 0}, {"spool-limit", s.SpoolLimit < 0},
		{"object-patcher-kube-client-timeout", s.Patches.Timeout < 0},
		{"webhook-parallel", s.Webhooks.Parallel < 0},
	} {
		if n.negative {
			wrong(n.flag, "cannot be negative; 0 means no limit, or the default")
		}
	}
	if strings.ContainsFunc(s.Tracing.Token, func(r rune) bool { return r < ' ' || r > '~' }) {
		wrong("tracing-otlp-auth-token", "must have visible ASCII characters only: does it end with a line end?")
	}
	for _, pattern := range s.HookEnv {
		if _, err := path.Match(strings.TrimPrefix(pattern, "!"), ""); err != nil || pattern == "" || pattern == "!" {
			wrong("hook-env", "%q is neither a name nor a glob: write for instance PATH, APP_* or !*_TOKEN", pattern)
		}
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
