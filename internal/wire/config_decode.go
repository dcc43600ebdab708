package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// document names a kind of text in violations.
type document struct {
	// name is the subject of sentences, key an example of a key, hint the fix, after the hint about further documents.
	name, key, hint, after string
}

var (
	configDocument = document{"the output", "configVersion", "print the configuration and nothing else to stdout; messages belong to stderr",
		": does the hook exit after its configuration?"}
	resultDocument = document{"it", "requeueAfter", "write one mapping, such as requeueAfter: 5m", ""}
)

// decode reads a mapping, which a text of comments only is, too.
func (p *parser) decode(output []byte) (map[string]any, bool) {
	if len(bytes.TrimSpace(output)) == 0 {
		p.violation("", "it printed nothing",
			`print a configuration that begins with "configVersion: v1" to stdout when the first argument is --config; `+
				`a hook with a library ends with hook::run "$@" or hook.run()`)
		return nil, false
	}
	value, ok := p.decodeValue(output)
	if !ok {
		return nil, false
	}
	switch value := value.(type) {
	case map[string]any:
		return value, true
	case nil:
		return map[string]any{}, true
	default:
		p.violation("", fmt.Sprintf("%s must be an object with keys such as %s, not %s", p.document.name, p.document.key,
			withArticle(jq.TypeOf(value))), p.document.hint)
		return nil, false
	}
}

// decodeValue reads the first document, and warns about what is lost: duplicate keys and further documents.
func (p *parser) decodeValue(output []byte) (any, bool) {
	var docs []*yaml.Node
	var syntax error
	for doc, err := range Documents(output) {
		if syntax = err; err != nil {
			break
		}
		if docs = append(docs, doc); len(docs) == 2 {
			break
		}
	}
	if len(docs) > 0 {
		if err := checkAliases(docs[0]); err != nil {
			p.violation("", p.document.name+" "+err.Error(), "")
			return nil, false
		}
	}
	text, err := FirstAsJSON(output)
	if err != nil {
		problem, hint := SyntaxError(output, err)
		p.violation("", p.document.name+" is neither YAML nor JSON: "+problem, cmp.Or(hint, p.document.hint))
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		p.violation("", p.document.name+" cannot be read as JSON: "+err.Error(), "")
		return nil, false
	}
	if len(docs) > 0 { // otherwise it is empty, or a text that only the other decoder accepts
		p.warnAboutDuplicates(docs[0], "")
	}
	if len(docs) > 1 && !isEmpty(docs[1]) {
		p.warn("", "only the first YAML document is read, the one that begins in line %d is ignored%s", docs[1].Line, p.document.after)
	} else if len(docs) == 1 && syntax != nil {
		p.warn("", "only the first YAML document is read, what follows it is ignored%s", p.document.after)
	}
	return value, true
}

// isEmpty reports whether nothing follows the "---" of a document.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 1 && doc.Content[0].Tag == "!!null"
}

func (p *parser) warnAboutDuplicates(n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		for i, child := range n.Content {
			if n.Kind == yaml.SequenceNode {
				p.warnAboutDuplicates(child, indexed(path, i))
			} else {
				p.warnAboutDuplicates(child, path)
			}
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := joined(path, key.Value)
		if line, ok := seen[key.Value]; ok {
			p.warn(at, "duplicate key, in lines %d and %d: the last one counts", line, key.Line)
		}
		seen[key.Value] = key.Line
		p.warnAboutDuplicates(value, at)
	}
}
