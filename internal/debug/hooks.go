package debug

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

func hookList(a *API, _ request) (answer, error) {
	hooks, err := a.hooks()
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.Name
	}
	return answer{value: names}, err
}

func hookSnapshots(a *API, r request) (answer, error) {
	h, err := a.hook(r)
	if err != nil {
		return answer{}, err
	}
	return answer{json: func(w io.Writer) error { return writeSnapshots(w, a.Operator, h) }}, nil
}

// operations counts what happened to the objects of a binding, in the words of dumps.
type operations struct {
	SinceStart         tally `json:"sinceStart"`
	SinceLastExecution tally `json:"sinceLastExecution"`
}

type tally struct {
	Count    int `json:"count"`
	Added    int `json:"added"`
	Deleted  int `json:"deleted"`
	Modified int `json:"modified"`
	Cleaned  int `json:"cleaned"`
}

func tallyOf(c Changes, objects int) tally {
	return tally{Count: objects, Added: c.Added, Deleted: c.Deleted, Modified: c.Modified}
}

// writeSnapshots writes object by object, because a snapshot may be too large to be held twice.
func writeSnapshots(out io.Writer, op Operator, h *hook.Hook) error {
	if len(h.Kubernetes) == 0 {
		_, err := io.WriteString(out, "null")
		return err
	}
	w := bufio.NewWriterSize(out, 64<<10)
	used := map[string]int{}
	for i := range h.Kubernetes {
		b := op.Binding(h, i)
		name := h.Kubernetes[i].Name
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, used[name]) // a key must be unique
		}
		key, err := marshal(name)
		if err != nil {
			return err
		}
		ops, err := marshal(operations{tallyOf(b.Total, b.Objects.Len()), tallyOf(b.Recent, 0)})
		if err != nil {
			return err
		}
		if i == 0 {
			_, _ = w.WriteString("{")
		} else {
			_, _ = w.WriteString(",")
		}
		_, _ = w.Write(key)
		_, _ = w.WriteString(`:{"snapshot":[`)
		if err := writeObjects(w, b.Objects); err != nil {
			return err
		}
		_, _ = w.WriteString(`],"operations":`)
		_, _ = w.Write(ops)
		_, _ = w.WriteString("}")
	}
	_, _ = w.WriteString("}")
	return w.Flush() // it keeps the first error
}

func writeObjects(w *bufio.Writer, objects event.Snapshot) (err error) {
	first := true
	objects.Each(func(o event.Object) bool {
		separator := ""
		if !first {
			_, _ = w.WriteString(",")
		}
		first = false
		_, _ = w.WriteString("{")
		for _, part := range []struct {
			name    string
			payload event.Payload
		}{{"object", o.Full}, {"filterResult", o.Filtered}} {
			if part.payload == nil {
				continue
			}
			var text []byte
			if text, err = part.payload.Bytes(); err != nil {
				return false
			}
			_, _ = w.WriteString(separator + `"` + part.name + `":`)
			_, err = w.Write(httpserver.HideTokensOfObject(text))
			separator = ","
		}
		_, _ = w.WriteString("}")
		return err == nil // the client has disconnected
	})
	return err
}

// hookDump is a hook in the words of its configuration.
type hookDump struct {
	Hook        string           `json:"hook"`
	Path        string           `json:"path"`
	OnStartup   *int             `json:"onStartup,omitempty"`
	Schedule    []scheduleDump   `json:"schedule,omitempty"`
	Kubernetes  []kubernetesDump `json:"kubernetes,omitempty"`
	Validating  []admissionDump  `json:"kubernetesValidating,omitempty"`
	Mutating    []admissionDump  `json:"kubernetesMutating,omitempty"`
	Conversions []conversionDump `json:"kubernetesCustomResourceConversion,omitempty"`
	HTTP        []httpDump       `json:"http,omitempty"`
	Settings    *settingsDump    `json:"settings,omitempty"`
}

type bindingDump struct {
	Name     string   `json:"name"`
	Group    string   `json:"group,omitempty"`
	Includes []string `json:"includeSnapshotsFrom,omitempty"`
}

type scheduleDump struct {
	bindingDump
	Crontab      string     `json:"crontab"`
	Queue        string     `json:"queue"`
	AllowFailure bool       `json:"allowFailure,omitempty"`
	Retry        *retryDump `json:"retry,omitempty"`
	NextTick     *time.Time `json:"nextTick,omitempty"`
}

type kubernetesDump struct {
	bindingDump
	// Queue is the name, or a keyedDump.
	Queue           any        `json:"queue"`
	AllowFailure    bool       `json:"allowFailure,omitempty"`
	Retry           *retryDump `json:"retry,omitempty"`
	APIVersion      string     `json:"apiVersion,omitempty"`
	Kind            string     `json:"kind"`
	Events          []string   `json:"executeHookOnEvent"`
	Initial         string     `json:"initialObjects,omitempty"`
	Condition       string     `json:"conditions,omitempty"`
	Synchronization bool       `json:"executeHookOnSynchronization"`
	Wait            bool       `json:"waitForSynchronization"`
	FullObjects     bool       `json:"keepFullObjectsInMemory"`
	Previous        bool       `json:"includePrevious,omitempty"`
	Finalizer       string     `json:"finalizer,omitempty"`
	JQFilter        string     `json:"jqFilter,omitempty"`
	Names           []string   `json:"names,omitempty"`
	Namespaces      []string   `json:"namespaces,omitempty"`
	NamespaceLabels *string    `json:"namespaceLabels,omitempty"`
	Labels          string     `json:"labels,omitempty"`
	Fields          string     `json:"fields,omitempty"`
	Resync          string     `json:"resynchronizationPeriod,omitempty"`
}

type keyedDump struct {
	Name        string   `json:"name"`
	Key         hook.Key `json:"key"`
	Concurrency int      `json:"concurrency"`
}

type retryDump struct {
	MinDelay  string         `json:"minDelay,omitempty"`
	MaxDelay  string         `json:"maxDelay,omitempty"`
	Limit     *int           `json:"limit,omitempty"`
	Exhausted hook.Exhausted `json:"exhausted,omitempty"`
}

type admissionDump struct {
	bindingDump
	Rules          []ruleDump `json:"rules"`
	FailurePolicy  string     `json:"failurePolicy,omitempty"`
	TimeoutSeconds int        `json:"timeoutSeconds"`
}

type conversionDump struct {
	bindingDump
	CRDName string     `json:"crdName"`
	Steps   []stepDump `json:"conversions"`
}

type ruleDump struct {
	APIGroups   []string `json:"apiGroups,omitempty"`
	APIVersions []string `json:"apiVersions,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	Operations  []string `json:"operations,omitempty"`
	Scope       string   `json:"scope,omitempty"`
}

type stepDump struct {
	From string `json:"fromVersion"`
	To   string `json:"toVersion"`
}

type allowDump struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

type httpDump struct {
	bindingDump
	Method  string     `json:"method"`
	Path    string     `json:"path"`
	Headers []string   `json:"headers,omitempty"`
	Timeout string     `json:"timeout,omitempty"`
	Allow   *allowDump `json:"allow,omitempty"`
}

type settingsDump struct {
	MinInterval      string     `json:"executionMinInterval,omitempty"`
	Burst            int        `json:"executionBurst,omitempty"`
	ExecutionTimeout string     `json:"executionTimeout,omitempty"`
	ContextsPerRun   int        `json:"contextsPerRun,omitempty"`
	Retry            *retryDump `json:"retry,omitempty"`
	Kubectl          string     `json:"kubectl,omitempty"`
	Record           string     `json:"record,omitempty"`
}

func hookConfig(a *API, r request) (answer, error) {
	h, err := a.hook(r)
	if err != nil {
		return answer{}, err
	}
	config := configOf(h, a.Operator.NextTick)
	text, err := yaml.Marshal(config) // it is YAML that people write it in
	return answer{value: config, text: string(text)}, err
}

func configOf(h *hook.Hook, nextTick func(string) time.Time) hookDump {
	d := hookDump{Hook: h.Name, Path: h.Path, OnStartup: h.OnStartup, Settings: settingsOf(h.Settings)}
	common := func(b hook.Binding) bindingDump {
		dump := bindingDump{Name: b.Name, Group: b.Group}
		for _, i := range b.Includes {
			dump.Includes = append(dump.Includes, h.Kubernetes[i].Name)
		}
		return dump
	}
	for _, s := range h.Schedules {
		dump := scheduleDump{bindingDump: common(s.Binding), Crontab: s.Crontab, Queue: s.Queue, AllowFailure: s.AllowFailure, Retry: retryOf(s.Retry)}
		if next := nextTick(s.Crontab); !next.IsZero() {
			dump.NextTick = &next
		}
		d.Schedule = append(d.Schedule, dump)
	}
	for i := range h.Kubernetes {
		d.Kubernetes = append(d.Kubernetes, kubernetesOf(&h.Kubernetes[i], common(h.Kubernetes[i].Binding)))
	}
	admission := func(list []hook.Admission) (dumps []admissionDump) {
		for _, b := range list {
			dump := admissionDump{bindingDump: common(b.Binding), FailurePolicy: b.FailurePolicy, TimeoutSeconds: b.TimeoutSeconds}
			for _, r := range b.Rules {
				dump.Rules = append(dump.Rules, ruleDump(r))
			}
			dumps = append(dumps, dump)
		}
		return dumps
	}
	d.Validating, d.Mutating = admission(h.Validating), admission(h.Mutating)
	for _, c := range h.Conversions {
		dump := conversionDump{bindingDump: common(c.Binding), CRDName: c.CRDName}
		for _, s := range c.Steps {
			dump.Steps = append(dump.Steps, stepDump(s))
		}
		d.Conversions = append(d.Conversions, dump)
	}
	for _, b := range h.HTTP {
		dump := httpDump{bindingDump: common(b.Binding), Method: b.Method, Path: b.Path, Headers: b.Headers, Allow: (*allowDump)(b.Allow)}
		if b.Timeout != nil {
			dump.Timeout = b.Timeout.String()
		}
		d.HTTP = append(d.HTTP, dump)
	}
	return d
}

func kubernetesOf(k *hook.Kubernetes, common bindingDump) kubernetesDump {
	d := kubernetesDump{
		bindingDump: common, Queue: k.Queue, AllowFailure: k.AllowFailure, Retry: retryOf(k.Retry), APIVersion: k.APIVersion, Kind: k.Kind,
		Events: events(k), Synchronization: k.Initial == hook.InitialList, Wait: k.WaitForSynchronization,
		FullObjects: k.KeepFullObjects, JQFilter: k.JQFilter, Finalizer: k.Finalizer, Names: k.Names, Namespaces: k.Namespaces.Names,
		Labels: k.Labels, Fields: k.Fields, Condition: k.Condition, Previous: k.IncludePrevious,
	}
	if k.Lanes.Keyed() {
		d.Queue = keyedDump{k.Queue, k.Lanes.Key, k.Lanes.Concurrency}
	}
	if k.Initial == hook.InitialEvents && !k.WaitForSynchronization {
		d.Initial, d.Synchronization = "added", true
	}
	if k.Namespaces.ByLabels {
		d.NamespaceLabels = &k.Namespaces.Labels
	}
	if k.Resync > 0 {
		d.Resync = k.Resync.String()
	}
	return d
}

// events are the changes that run the hook.
func events(k *hook.Kubernetes) []string {
	list := []string{}
	for _, e := range []struct {
		wanted bool
		watch  event.Watch
	}{{k.Added, event.Added}, {k.Modified, event.Modified}, {k.Deleted, event.Deleted}, {k.Finalizer != "", event.Deleting}} {
		if e.wanted {
			list = append(list, e.watch.String())
		}
	}
	return list
}

func retryOf(r *hook.Retry) *retryDump {
	if r == nil {
		return nil
	}
	d := &retryDump{Limit: r.Limit, Exhausted: r.Exhausted}
	if r.MinDelay != nil {
		d.MinDelay = r.MinDelay.String()
	}
	if r.MaxDelay != nil {
		d.MaxDelay = r.MaxDelay.String()
	}
	return d
}

func settingsOf(s hook.Settings) *settingsDump {
	var d settingsDump
	if s.MinInterval > 0 {
		d.MinInterval, d.Burst = s.MinInterval.String(), s.Burst
	}
	if s.ExecutionTimeout != nil {
		d.ExecutionTimeout = s.ExecutionTimeout.String()
	}
	d.ContextsPerRun, d.Kubectl, d.Record, d.Retry = s.ContextsPerRun, s.Kubectl, string(s.Record), retryOf(s.Retry)
	if d == (settingsDump{}) {
		return nil
	}
	return &d
}
