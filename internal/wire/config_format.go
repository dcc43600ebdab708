package wire

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// Config is a configuration in the form in which hooks print it. FormatConfig writes it with its defaults: ParseConfig of its JSON is the
// hook. Hooks of version 0 are in the keys of version 1, without a version.
type Config struct {
	Version     string             `json:"configVersion,omitempty"`
	OnStartup   *int               `json:"onStartup,omitempty"`
	Schedules   []ScheduleConfig   `json:"schedule,omitempty"`
	Kubernetes  []kubernetesConfig `json:"kubernetes,omitempty"`
	Validating  []admissionConfig  `json:"kubernetesValidating,omitempty"`
	Mutating    []admissionConfig  `json:"kubernetesMutating,omitempty"`
	Conversions []conversionConfig `json:"kubernetesCustomResourceConversion,omitempty"`
	HTTP        []httpConfig       `json:"http,omitempty"`
	Settings    *settingsConfig    `json:"settings,omitempty"`
}

type bindingConfig struct {
	Name     string   `json:"name"`
	Group    string   `json:"group,omitempty"`
	Includes []string `json:"includeSnapshotsFrom,omitempty"`
}

// ScheduleConfig is an item of the list schedule.
type ScheduleConfig struct {
	bindingConfig
	Crontab      string       `json:"crontab"`
	Queue        *queueConfig `json:"queue"`
	AllowFailure bool         `json:"allowFailure,omitempty"`
	Retry        *retryConfig `json:"retry,omitempty"`
}

type kubernetesConfig struct {
	bindingConfig
	Queue           *queueConfig     `json:"queue"`
	AllowFailure    bool             `json:"allowFailure,omitempty"`
	Retry           *retryConfig     `json:"retry,omitempty"`
	APIVersion      string           `json:"apiVersion,omitempty"`
	Kind            string           `json:"kind"`
	Optional        bool             `json:"optional,omitempty"`
	Events          []string         `json:"executeHookOnEvent"`
	WatchEvents     []string         `json:"watchEvent,omitempty"`
	Initial         string           `json:"initialObjects,omitempty"`
	Condition       string           `json:"conditions,omitempty"`
	Synchronization *bool            `json:"executeHookOnSynchronization"`
	Wait            *bool            `json:"waitForSynchronization"`
	FullObjects     *bool            `json:"keepFullObjectsInMemory"`
	ManagedFields   *bool            `json:"keepManagedFields,omitempty"`
	Previous        bool             `json:"includePrevious,omitempty"`
	Finalizer       string           `json:"finalizer,omitempty"`
	OwnChanges      string           `json:"ownChanges,omitempty"`
	JQFilter        string           `json:"jqFilter,omitempty"`
	Names           *namesConfig     `json:"nameSelector,omitempty"`
	Namespace       *namespaceConfig `json:"namespace,omitempty"`
	Labels          *labelsConfig    `json:"labelSelector,omitempty"`
	Fields          *fieldsConfig    `json:"fieldSelector,omitempty"`
	Resync          string           `json:"resynchronizationPeriod,omitempty"`
}

// queueConfig is an object, or a text with the name only.
type queueConfig struct {
	Name        string   `json:"name"`
	Key         hook.Key `json:"key"`
	Concurrency int      `json:"concurrency"`
}

func (c *queueConfig) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &c.Name)
	}
	type plain queueConfig
	c.Name = hook.MainQueue
	return json.Unmarshal(text, (*plain)(c))
}

func (c *queueConfig) MarshalJSON() ([]byte, error) {
	if c.Key == "" {
		return json.Marshal(c.Name)
	}
	type plain queueConfig
	return json.Marshal((*plain)(c))
}

func (c *queueConfig) name() string {
	if c == nil || c.Name == "" {
		return hook.MainQueue
	}
	return c.Name
}

type retryConfig struct {
	MinDelay  string         `json:"minDelay,omitempty"`
	MaxDelay  string         `json:"maxDelay,omitempty"`
	Limit     *int           `json:"limit,omitempty"`
	Exhausted hook.Exhausted `json:"exhausted,omitempty"`
}

type namesConfig struct {
	Names []string `json:"matchNames"`
}

type namespaceConfig struct {
	Names  *namesConfig  `json:"nameSelector,omitempty"`
	Labels *labelsConfig `json:"labelSelector,omitempty"`
}

type labelsConfig struct {
	Labels      map[string]string                 `json:"matchLabels,omitzero"`
	Expressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitzero"`
}

type fieldsConfig struct {
	Expressions []fieldConfig `json:"matchExpressions"`
}

type fieldConfig struct {
	Field    string `json:"field"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

type admissionConfig struct {
	bindingConfig
	Rules           []ruleConfig          `json:"rules,omitempty"`
	Labels          *labelsConfig         `json:"labelSelector,omitempty"`
	Namespace       *namespaceConfig      `json:"namespace,omitempty"`
	MatchConditions []hook.MatchCondition `json:"matchConditions,omitempty"`
	FailurePolicy   string                `json:"failurePolicy,omitempty"`
	SideEffects     string                `json:"sideEffects,omitempty"`
	TimeoutSeconds  int                   `json:"timeoutSeconds"`
	MatchPolicy     string                `json:"matchPolicy,omitempty"`
	Reinvocation    string                `json:"reinvocationPolicy,omitempty"`
}

type ruleConfig struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
	Operations  []string `json:"operations"`
	Scope       string   `json:"scope,omitempty"`
}

type conversionConfig struct {
	bindingConfig
	CRDName string       `json:"crdName"`
	Steps   []stepConfig `json:"conversions"`
}

type stepConfig struct {
	From string `json:"fromVersion"`
	To   string `json:"toVersion"`
}

type httpConfig struct {
	bindingConfig
	Method  string       `json:"method"`
	Path    string       `json:"path"`
	Headers []string     `json:"headers,omitempty"`
	Timeout string       `json:"timeout,omitempty"`
	Allow   *allowConfig `json:"allow,omitempty"`
}

type allowConfig struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

type settingsConfig struct {
	MinInterval      string          `json:"executionMinInterval,omitempty"`
	Burst            int             `json:"executionBurst,omitempty"`
	ExecutionTimeout string          `json:"executionTimeout,omitempty"`
	ContextsPerRun   *contextsPerRun `json:"contextsPerRun,omitempty"`
	Retry            *retryConfig    `json:"retry,omitempty"`
	Kubectl          string          `json:"kubectl,omitempty"`
	Record           hook.Record     `json:"record,omitempty"`
	Worker           *workerConfig   `json:"worker,omitempty"`
	MaxFileBytes     int             `json:"maxFileBytes,omitempty"`
	MaxLogBytes      int             `json:"maxLogBytes,omitempty"`
	ShardBy          shard.By        `json:"shardBy,omitempty"`
}

// contextsPerRun is a number, or auto.
type contextsPerRun int

func (c *contextsPerRun) UnmarshalJSON(text []byte) error {
	if *c = hook.AutoContexts; text[0] == '"' {
		return nil
	}
	return json.Unmarshal(text, (*int)(c))
}

func (c *contextsPerRun) MarshalJSON() ([]byte, error) {
	if *c == hook.AutoContexts {
		return []byte(`"auto"`), nil
	}
	return json.Marshal(int(*c))
}

// workerConfig are the limits of a worker. All are written, because 0 is no default.
type workerConfig struct {
	Off         bool   `json:"-"`
	MaxAge      string `json:"maxAge"`
	MaxRuns     int    `json:"maxRuns"`
	IdleTimeout string `json:"idleTimeout"`
}

// UnmarshalJSON reads the limits, true or false.
func (c *workerConfig) UnmarshalJSON(text []byte) error {
	type plain workerConfig
	*c = workerConfig{string(text) == "false", "1h", 10_000, "10m"}
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, (*plain)(c))
}

// FormatConfig returns the form of a configuration.
func FormatConfig(h *hook.Hook) Config {
	c := Config{OnStartup: h.OnStartup, Settings: formatSettings(&h.Settings)}
	if h.Contexts == hook.FullContexts {
		c.Version = "v1"
	}
	for i := range h.Schedules {
		s := &h.Schedules[i]
		c.Schedules = append(c.Schedules, ScheduleConfig{formatBinding(h, &s.Binding), s.Crontab, &queueConfig{Name: s.Queue}, s.AllowFailure,
			formatRetry(s.Retry)})
	}
	for i := range h.Kubernetes {
		c.Kubernetes = append(c.Kubernetes, formatKubernetes(h, &h.Kubernetes[i]))
	}
	for i := range h.Validating {
		c.Validating = append(c.Validating, formatAdmission(h, &h.Validating[i]))
	}
	for i := range h.Mutating {
		c.Mutating = append(c.Mutating, formatAdmission(h, &h.Mutating[i]))
	}
	for i := range h.Conversions {
		b := conversionConfig{bindingConfig: formatBinding(h, &h.Conversions[i].Binding), CRDName: h.Conversions[i].CRDName}
		for _, s := range h.Conversions[i].Steps {
			b.Steps = append(b.Steps, stepConfig(s))
		}
		c.Conversions = append(c.Conversions, b)
	}
	for i := range h.HTTP {
		b := &h.HTTP[i]
		c.HTTP = append(c.HTTP, httpConfig{formatBinding(h, &b.Binding), b.Method, b.Path, b.Headers, formatDuration(b.Timeout),
			(*allowConfig)(b.Allow)})
	}
	if c.Settings == nil && h.Count(func(hook.Kind) bool { return true }) == 0 {
		c.Settings = &settingsConfig{} // a version alone is no configuration
	}
	return c
}

// formatBinding names the included snapshots up to the first one whose name another binding has: its group includes it and the rest.
func formatBinding(h *hook.Hook, b *hook.Binding) bindingConfig {
	count := map[string]int{}
	for i := range h.Kubernetes {
		count[h.Kubernetes[i].Name]++
	}
	c := bindingConfig{Name: b.Name, Group: b.Group}
	for _, i := range b.Includes {
		name := h.Kubernetes[i].Name
		if count[name] > 1 {
			break
		}
		c.Includes = append(c.Includes, name)
	}
	return c
}

func formatKubernetes(h *hook.Hook, k *hook.Kubernetes) kubernetesConfig {
	c := kubernetesConfig{
		bindingConfig: formatBinding(h, &k.Binding), Queue: &queueConfig{k.Queue, k.Lanes.Key, k.Lanes.Concurrency},
		AllowFailure: k.AllowFailure, Retry: formatRetry(k.Retry),
		APIVersion: k.APIVersion,
		Kind:       k.Kind, Optional: k.Optional, Events: EventsOf(k), Synchronization: new(k.Initial == hook.InitialList),
		Wait:        new(k.WaitForSynchronization),
		FullObjects: new(k.KeepFullObjects), ManagedFields: k.KeepManagedFields, Previous: k.IncludePrevious, Finalizer: k.Finalizer,
		JQFilter:  k.JQFilter,
		Condition: k.Condition, Names: formatNames(k.Names), Fields: formatFields(k.Fields),
	}
	if k.IgnoreOwn {
		c.OwnChanges = "ignore"
	}
	if k.Initial == hook.InitialEvents && !k.WaitForSynchronization { // version 0 waits
		c.Initial, *c.Synchronization = "added", true
	}
	if k.Labels != "" {
		c.Labels = formatLabels(k.Labels)
	}
	if names := formatNames(k.Namespaces.Names); names != nil {
		c.Namespace = &namespaceConfig{Names: names}
	}
	if k.Namespaces.ByLabels {
		c.Namespace = &namespaceConfig{Labels: formatLabels(k.Namespaces.Labels)}
	}
	if k.Resync > 0 {
		c.Resync = formatDuration(&k.Resync)
	}
	return c
}

// EventsOf are the changes that run the hook.
func EventsOf(k *hook.Kubernetes) []string {
	list := []string{}
	for _, e := range []struct {
		runs bool
		word string
	}{{k.Added, "Added"}, {k.Modified, "Modified"}, {k.Deleted, "Deleted"}, {k.Finalizer != "", "Deleting"}} {
		if e.runs {
			list = append(list, e.word)
		}
	}
	return list
}

func formatNames(names []string) *namesConfig {
	if len(names) == 0 {
		return nil
	}
	return &namesConfig{names}
}

// formatLabels returns the form of a selector as text, which is valid.
func formatLabels(text string) *labelsConfig {
	c := &labelsConfig{}
	if s, err := metav1.ParseToLabelSelector(text); err == nil {
		if len(s.MatchLabels) > 0 {
			c.Labels = s.MatchLabels
		}
		if len(s.MatchExpressions) > 0 {
			c.Expressions = s.MatchExpressions
		}
	}
	return c.complete()
}

// complete adds a key to the selector that selects everything: it must have one.
func (c *labelsConfig) complete() *labelsConfig {
	if c.Labels == nil && c.Expressions == nil {
		c.Expressions = []metav1.LabelSelectorRequirement{}
	}
	return c
}

func formatLabelSelector(s *hook.LabelSelector) *labelsConfig {
	if s == nil {
		return nil
	}
	return (&labelsConfig{s.MatchLabels, s.MatchExpressions}).complete()
}

func formatFields(text string) *fieldsConfig {
	if text == "" {
		return nil
	}
	s, err := fields.ParseSelector(text)
	if err != nil { // the name of a field is none, which the API server reports
		return &fieldsConfig{[]fieldConfig{{Field: text}}}
	}
	c := &fieldsConfig{}
	for _, r := range s.Requirements() {
		c.Expressions = append(c.Expressions, fieldConfig{r.Field, string(r.Operator), r.Value})
	}
	return c
}

func formatAdmission(h *hook.Hook, a *hook.Admission) admissionConfig {
	c := admissionConfig{
		bindingConfig: formatBinding(h, &a.Binding), Labels: formatLabelSelector(a.ObjectLabels), FailurePolicy: a.FailurePolicy,
		SideEffects: a.SideEffects, TimeoutSeconds: a.TimeoutSeconds, MatchPolicy: a.MatchPolicy, Reinvocation: a.ReinvocationPolicy,
		MatchConditions: a.MatchConditions,
	}
	for _, r := range a.Rules {
		c.Rules = append(c.Rules, ruleConfig(r))
	}
	if labels := formatLabelSelector(a.NamespaceLabels); labels != nil {
		c.Namespace = &namespaceConfig{Labels: labels}
	}
	return c
}

func formatSettings(s *hook.Settings) *settingsConfig {
	c := settingsConfig{
		Burst: s.Burst, ExecutionTimeout: formatDuration(s.ExecutionTimeout), Retry: formatRetry(s.Retry), Kubectl: s.Kubectl, Record: s.Record,
		MaxFileBytes: s.MaxFileBytes, MaxLogBytes: s.MaxLogBytes, ShardBy: s.ShardBy,
	}
	if s.MinInterval > 0 {
		c.MinInterval = formatDuration(&s.MinInterval)
	}
	if w := s.Worker; w != nil {
		c.Worker = &workerConfig{false, formatDuration(&w.MaxAge), w.MaxRuns, formatDuration(&w.IdleTimeout)}
	}
	if s.ContextsPerRun != 0 {
		c.ContextsPerRun = new(contextsPerRun(s.ContextsPerRun))
	}
	if c == (settingsConfig{}) {
		return nil
	}
	return &c
}

func formatRetry(r *hook.Retry) *retryConfig {
	if r == nil {
		return nil
	}
	return &retryConfig{formatDuration(r.MinDelay), formatDuration(r.MaxDelay), r.Limit, r.Exhausted}
}

func formatDuration(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return shortDuration(*d)
}
