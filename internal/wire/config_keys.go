package wire

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// config is a configuration of version 1 in the form in which hooks print it. Fields of values of package hook are found in any case.
type config struct {
	Version     string             `json:"configVersion"`
	OnStartup   *int               `json:"onStartup"`
	Schedules   []scheduleConfig   `json:"schedule"`
	Kubernetes  []kubernetesConfig `json:"kubernetes"`
	Validating  []admissionConfig  `json:"kubernetesValidating"`
	Mutating    []admissionConfig  `json:"kubernetesMutating"`
	Conversions []conversionConfig `json:"kubernetesCustomResourceConversion"`
	HTTP        []httpConfig       `json:"http"`
	Settings    *settingsConfig    `json:"settings"`
}

type bindingConfig struct {
	Name     string   `json:"name"`
	Group    string   `json:"group"`
	Includes []string `json:"includeSnapshotsFrom"`
}

// scheduleConfig is an item of the list schedule.
type scheduleConfig struct {
	bindingConfig
	Crontab      string       `json:"crontab"`
	Queue        *queueConfig `json:"queue"`
	AllowFailure bool         `json:"allowFailure"`
	Retry        *retryConfig `json:"retry"`
}

type kubernetesConfig struct {
	bindingConfig
	Queue           *queueConfig     `json:"queue"`
	AllowFailure    bool             `json:"allowFailure"`
	Retry           *retryConfig     `json:"retry"`
	APIVersion      string           `json:"apiVersion"`
	Kind            string           `json:"kind"`
	Optional        bool             `json:"optional"`
	Events          []string         `json:"executeHookOnEvent"`
	WatchEvents     []string         `json:"watchEvent"`
	Initial         string           `json:"initialObjects"`
	Condition       string           `json:"conditions"`
	Synchronization *bool            `json:"executeHookOnSynchronization"`
	Wait            *bool            `json:"waitForSynchronization"`
	FullObjects     *bool            `json:"keepFullObjectsInMemory"`
	ManagedFields   *bool            `json:"keepManagedFields"`
	Previous        bool             `json:"includePrevious"`
	Finalizer       string           `json:"finalizer"`
	OwnChanges      string           `json:"ownChanges"`
	JQFilter        string           `json:"jqFilter"`
	Names           *namesConfig     `json:"nameSelector"`
	Namespace       *namespaceConfig `json:"namespace"`
	Labels          *labelsConfig    `json:"labelSelector"`
	Fields          *fieldsConfig    `json:"fieldSelector"`
	Resync          string           `json:"resynchronizationPeriod"`
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

func (c *queueConfig) name() string {
	if c == nil || c.Name == "" {
		return hook.MainQueue
	}
	return c.Name
}

type retryConfig struct {
	MinDelay  string         `json:"minDelay"`
	MaxDelay  string         `json:"maxDelay"`
	Limit     *int           `json:"limit"`
	Exhausted hook.Exhausted `json:"exhausted"`
}

type namesConfig struct {
	Names []string `json:"matchNames"`
}

type namespaceConfig struct {
	Names  *namesConfig  `json:"nameSelector"`
	Labels *labelsConfig `json:"labelSelector"`
}

type labelsConfig struct {
	Labels      map[string]string                 `json:"matchLabels"`
	Expressions []metav1.LabelSelectorRequirement `json:"matchExpressions"`
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
	Rules           []hook.Rule           `json:"rules"`
	Labels          *labelsConfig         `json:"labelSelector"`
	Namespace       *namespaceConfig      `json:"namespace"`
	MatchConditions []hook.MatchCondition `json:"matchConditions"`
	FailurePolicy   string                `json:"failurePolicy"`
	SideEffects     string                `json:"sideEffects"`
	TimeoutSeconds  int                   `json:"timeoutSeconds"`
	MatchPolicy     string                `json:"matchPolicy"`
	Reinvocation    string                `json:"reinvocationPolicy"`
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
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Headers []string    `json:"headers"`
	Timeout string      `json:"timeout"`
	Allow   *hook.Allow `json:"allow"`
}

type settingsConfig struct {
	MinInterval      string          `json:"executionMinInterval"`
	Burst            int             `json:"executionBurst"`
	ExecutionTimeout string          `json:"executionTimeout"`
	ContextsPerRun   *contextsPerRun `json:"contextsPerRun"`
	Retry            *retryConfig    `json:"retry"`
	Kubectl          string          `json:"kubectl"`
	Record           hook.Record     `json:"record"`
	Worker           *workerConfig   `json:"worker"`
	MaxFileBytes     int             `json:"maxFileBytes"`
	MaxLogBytes      int             `json:"maxLogBytes"`
	ShardBy          shard.By        `json:"shardBy"`
}

// contextsPerRun is a number, or auto.
type contextsPerRun int

func (c *contextsPerRun) UnmarshalJSON(text []byte) error {
	if *c = hook.AutoContexts; text[0] == '"' {
		return nil
	}
	return json.Unmarshal(text, (*int)(c))
}

// workerConfig are the limits of a worker.
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
