package wire

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxAliased bounds the expansion of aliases: a long text with some thousand aliases of it would take all memory.
const maxAliased = 16 << 20

// checkAliases rejects a tree whose aliases expand to more than maxAliased bytes.
func checkAliases(node *yaml.Node) error {
	a := aliases{sizes: map[*yaml.Node]int{}}
	a.visit(node)
	if a.added > maxAliased {
		return fmt.Errorf("has aliases that expand to more than %d bytes: write the values instead", maxAliased)
	}
	return nil
}

// aliases measures the expansion of the aliases of a tree.
type aliases struct {
	// sizes are the sizes of aliased nodes, expanded; 0 while a node is being measured.
	sizes map[*yaml.Node]int
	added int
}

// visit measures all aliases in a tree.
func (a *aliases) visit(node *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		a.added = min(a.added+a.size(node), maxAliased+1)
	}
	for _, child := range node.Content {
		a.visit(child)
	}
}

// size approximates the length of a node as JSON.
func (a *aliases) size(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		size, known := a.sizes[node.Alias]
		if !known {
			a.sizes[node.Alias] = 0 // a node that contains itself is an error anyway
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
