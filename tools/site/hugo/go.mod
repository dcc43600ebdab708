// The theme of the site, a module of Hugo. A module of its own: it has no Go packages.
module github.com/shell-operator/shell-operator/tools/site/hugo

go 1.26.0

require github.com/imfing/hextra v0.9.7 // indirect
