// Package untranslated leaves kubectl's messages as they are in its source, which saves a fifth of the time of a short command.
// Like package first it is initialized before the commands, whose packages ask for translations when they are initialized.
package untranslated

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
