package wire

import (
	"reflect"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Every configuration of the other tests is that of its form. The form is of version 1.
func TestFormatConfig(t *testing.T) {
	// not in a configuration
	missing := fieldsOf[hook.Hook]("Hook.Interpreter", "Hook.ShellLibrary", "Hook.Contexts", "Settings.OneByOne", "Lanes.Secret")
	for name, text := range texts(t, configFiles) {
		h, _, err := ParseConfig("hook.sh", "/hooks/hook.sh", text, testOptions())
		if err != nil || h.Contexts != hook.FullContexts {
			continue
		}
		form := written(t, FormatConfig(&h))
		again, _, err := ParseConfig(h.Name, h.Path, form, testOptions())
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%s: got\n%+v, %v, want\n%+v: %s", name, again, err, h, form)
		}
		missing.remove(reflect.ValueOf(again))
	}
	missing.check(t, "configuration")
}
