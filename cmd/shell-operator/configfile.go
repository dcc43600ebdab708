package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// readFile sets the flags that neither the command line nor the environment has set; others are only checked, on spare flags. Every mistake
// of the file is reported, with its line.
func (s *settings) readFile(fs, spare *pflag.FlagSet) (errs []error) {
	wrong := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("configuration error: %s:%d: "+format, append([]any{s.configFile, line}, args...)...))
	}
	root, err := openYAML(s.configFile)
	if err != nil {
		return []error{fmt.Errorf("configuration error: cannot read the file of --config-file (SHELL_OPERATOR_CONFIG_FILE): "+
			"%w: name a YAML file of settings", err)}
	}
	if root == nil {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		wrong(root.Line, "the file must be a map of settings, such as %q", "log-level: debug")
		return errs
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		f := s.lookup(fs, key.Value)
		switch first, twice := lines[key.Value]; {
		case twice:
			wrong(key.Line, "%s is set twice, first in line %d", key.Value, first)
		case f == nil:
			wrong(key.Line, "%q is not a setting%s", key.Value, didYouMean(key.Value, s.flags()))
		case key.Value == configFileFlag:
			wrong(key.Line, "%s cannot be set here: it is what led to this file", configFileFlag)
		default:
			if f.Changed {
				f = spare.Lookup(f.Name)
			}
			if problem := fromNode(f, value); problem != "" {
				wrong(value.Line, "%s: %s", key.Value, problem)
			}
		}
		lines[key.Value] = key.Line
	}
	return errs
}

// openYAML returns the root of the only document of a file, nil if it is empty.
func openYAML(path string) (*yaml.Node, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var doc, next yaml.Node
	dec := yaml.NewDecoder(file)
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if dec.Decode(&next) == nil {
		return nil, fmt.Errorf("%s:%d: only one YAML document may be there", path, next.Line)
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		return root, nil
	}
	return nil, nil
}

// lookup returns the flag of a setting, nil for what is none.
func (s *settings) lookup(fs *pflag.FlagSet, name string) *pflag.Flag {
	for _, row := range s.list {
		if row.flag == name {
			return fs.Lookup(name)
		}
	}
	return nil
}

// flags are the names of all settings that help shows.
func (s *settings) flags() (names []string) {
	for _, row := range s.list {
		if !row.hidden {
			names = append(names, row.flag)
		}
	}
	return names
}

// fromNode sets a flag from its value in the file. It returns the problem, or nothing.
func fromNode(f *pflag.Flag, value *yaml.Node) string {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case value.Tag == "!!null":
		return "it has no value: set one, or remove the line"
	case value.Kind == yaml.SequenceNode && isList:
		var items []string
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return fmt.Sprintf("the item in line %d is not a text", item.Line)
			}
			items = append(items, item.Value)
		}
		f.Changed = true
		if err := list.Replace(items); err != nil {
			return err.Error()
		}
		return ""
	case value.Kind != yaml.ScalarNode:
		return fmt.Sprintf("it must be a %s, not a %s", typeWord(f), nodeWord(value))
	}
	if err := f.Value.Set(value.Value); err != nil {
		return fmt.Sprintf("%q is not a %s%s", value.Value, typeWord(f), typeMend(f))
	}
	f.Changed = true
	return ""
}

func nodeWord(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "list"
	}
	return "map"
}

func typeMend(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return ": write a number with its unit, such as 10s or 1m30s"
	case "bool":
		return ": write true or false"
	}
	return ""
}
