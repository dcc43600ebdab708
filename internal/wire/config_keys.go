package wire

import (
	"encoding/json"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// config is a configuration of version 1 in the form in which hooks print it. Where a value of package hook has the form of a key it is
// embedded: its field has the name of the key, in any case.
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
	hook.Schedule
	Queue *queueConfig `json:"queue"`
	Retry *retryConfig `json:"retry"`
}

type kubernetesConfig struct {
	bindingConfig
	hook.Kubernetes
	Queue           *queueConfig        `json:"queue"`
	Retry           *retryConfig        `json:"retry"`
	Events          []string            `json:"executeHookOnEvent"`
	WatchEvents     []string            `json:"watchEvent"`
	Initial         string              `json:"initialObjects"`
	Condition       string              `json:"conditions"`
	Synchronization *bool               `json:"executeHookOnSynchronization"`
	Wait            *bool               `json:"waitForSynchronization"`
	FullObjects     *bool               `json:"keepFullObjectsInMemory"`
	OwnChanges      string              `json:"ownChanges"`
	Names           *namesConfig        `json:"nameSelector"`
	Namespace       *namespaceConfig    `json:"namespace"`
	Labels          *hook.LabelSelector `json:"labelSelector"`
	Fields          *fieldsConfig       `json:"fieldSelector"`
	Resync          string              `json:"resynchronizationPeriod"`
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
	Names  *namesConfig        `json:"nameSelector"`
	Labels *hook.LabelSelector `json:"labelSelector"`
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
	hook.Admission
	Labels    *hook.LabelSelector `json:"labelSelector"`
	Namespace *namespaceConfig    `json:"namespace"`
}

type conversionConfig struct {
	bindingConfig
	hook.Conversion
	Steps []hook.ConversionStep `json:"conversions"`
}

type httpConfig struct {
	bindingConfig
	hook.HTTP
	Timeout string `json:"timeout"`
}

type settingsConfig struct {
	hook.Settings
	MinInterval      string          `json:"executionMinInterval"`
	Burst            int             `json:"executionBurst"`
	ExecutionTimeout string          `json:"executionTimeout"`
	ContextsPerRun   *contextsPerRun `json:"contextsPerRun"`
	Retry            *retryConfig    `json:"retry"`
	Worker           *workerConfig   `json:"worker"`
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
