package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

const tenantFiles = "testdata/tenants/*.txtar"

// TestParseTenants runs the archives in testdata/tenants: each file is followed by the tenants that come of it, or its errors.
func TestParseTenants(t *testing.T) {
	golden.Wants(t, tenantFiles, func(_ *testing.T, f txtar.File) string {
		tenants, err := ParseTenants(f.Data)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		for _, t := range tenants {
			fmt.Fprintln(&b, show(reflect.ValueOf(*t)))
		}
		return b.String()
	})
}

// Every file of tenants in the other test is that of its form.
func TestFormatTenants(t *testing.T) {
	missing := fieldsOf[hook.Tenant]()
	for name, text := range texts(t, tenantFiles) {
		tenants, err := ParseTenants(text)
		if err != nil {
			continue
		}
		form := written(t, formatTenants(tenants))
		again, err := ParseTenants(form)
		if err != nil || len(again) != len(tenants) || len(tenants) > 0 && !reflect.DeepEqual(again, tenants) {
			t.Errorf("%s: got %v, %v: %s", name, again, err, form)
		}
		missing.remove(reflect.ValueOf(tenants))
	}
	missing.check(t, "file of tenants")
}

// FuzzParseTenants checks what callers rely on: an error is a *FileError, and a tenant has a name, a folder and an account.
func FuzzParseTenants(f *testing.F) {
	for _, path := range golden.Files(f, tenantFiles) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tenants, err := ParseTenants(text)
		if err != nil {
			if broken := (*FileError)(nil); !errors.As(err, &broken) || len(broken.Violations) == 0 {
				t.Errorf("error %#v", err)
			}
			return
		}
		for _, one := range tenants {
			if one.Name == "" || len(one.Folder) < 2 || !strings.HasSuffix(one.Folder, "/") || one.ServiceAccount.Name == "" ||
				one.ServiceAccount.Namespace == "" || one.Limits.Memory < 0 || one.Limits.CPUTime < 0 {
				t.Errorf("tenant %+v", one)
			}
		}
		if again, err := ParseTenants(written(t, formatTenants(tenants))); err != nil || len(tenants) > 0 && !reflect.DeepEqual(again, tenants) {
			t.Errorf("got %v, %v, want %v", again, err, tenants)
		}
	})
}

// tenantConfig is an entry of the file of tenants.
type tenantConfig struct {
	Name           string        `json:"name"`
	Folder         string        `json:"folder"`
	ServiceAccount string        `json:"serviceAccount"`
	Limits         *limitsConfig `json:"limits,omitempty"`
	Webhooks       []string      `json:"webhooks,omitempty"`
}

type limitsConfig struct {
	Memory      string `json:"memory,omitempty"`
	CPUTime     string `json:"cpuTime,omitempty"`
	Files       string `json:"files,omitempty"`
	OpenFiles   int    `json:"openFiles,omitempty"`
	Output      string `json:"output,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	Series      int    `json:"series,omitempty"`
}

// formatTenants returns the entries of a file of tenants, of which ParseTenants makes them again.
func formatTenants(tenants []*hook.Tenant) []tenantConfig {
	list := make([]tenantConfig, len(tenants))
	for i, t := range tenants {
		list[i] = tenantConfig{Name: t.Name, Folder: t.Folder, ServiceAccount: t.ServiceAccount.String(), Webhooks: t.Webhooks}
		if l := t.Limits; l != (hook.Limits{}) {
			c := &limitsConfig{Memory: formatBytes(l.Memory), Files: formatBytes(l.Files), Output: formatBytes(l.Output),
				OpenFiles: l.OpenFiles, Concurrency: l.Concurrency, Series: l.Series}
			if l.CPUTime > 0 {
				c.CPUTime = shortDuration(l.CPUTime)
			}
			list[i].Limits = c
		}
	}
	return list
}

func formatBytes(n int64) string {
	if n == 0 {
		return ""
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}
