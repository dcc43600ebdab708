package wire

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxAliased is how much longer aliases may make a document. They are for a few lines that are wanted again; a long text
// with some thousand aliases of it would take all memory.
const maxAliased = 16 << 20

// checkAliases refuses a tree whose aliases stand for more than maxAliased bytes.
func checkAliases(node *yaml.Node) error {
	a := aliases{sizes: map[*yaml.Node]int{}}
	a.visit(node)
	if a.added > maxAliased {
		return fmt.Errorf("has aliases that stand for more than %d bytes: write out what is meant, or less of it", maxAliased)
	}
	return nil
}

// checkAliasesIn does so with the first document of a text that may be YAML. What cannot be read others will tell.
func checkAliasesIn(text []byte) error {
	var node yaml.Node
	if !bytes.ContainsRune(text, '*') || yaml.NewDecoder(bytes.NewReader(text)).Decode(&node) != nil {
		return nil
	}
	return checkAliases(&node)
}

// aliases counts what the aliases of a tree stand for.
type aliases struct {
	// sizes are those of nodes that aliases name, with the aliases inside; of one that is being counted it is 0.
	sizes map[*yaml.Node]int
	added int
}

// visit counts all aliases in a tree.
func (a *aliases) visit(node *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		a.added = min(a.added+a.size(node), maxAliased+1)
	}
	for _, child := range node.Content {
		a.visit(child)
	}
}

// size is about the length of a node as JSON.
func (a *aliases) size(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		size, known := a.sizes[node.Alias]
		if !known {
			a.sizes[node.Alias] = 0 // one that contains itself is an error anyway
			size = a.size(node.Alias)
			a.sizes[node.Alias] = size
		}
		return size
	}
	total := len(node.Value) + 2
	for _, child := range node.Content {
		total = min(total+a.size(child), maxAliased+1)
	}
	return total
}
