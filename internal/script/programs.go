package script

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// harmless are commands that neither run other programs of a hook nor read variables that the script does not name: commands of
// the shells, and programs that hooks call. Contexts that are passed to them explicitly are seen by the reader.
var harmless = words(`
	: break cd continue exit export false getopts hash jobs kill let local popd printf pushd pwd read readarray mapfile readonly return
	set shift shopt sleep times true type typeset declare ulimit umask unset wait

	awk base32 base64 basename bc cmp comm cp cut cat chgrp chmod chown date dd df diff dirname du echo expand expr fmt fold gawk getconf
	grep egrep fgrep groups gunzip gzip head hexdump hostid hostname id iconv install join ln logger logname ls md5sum mkdir mkfifo
	mktemp mv nl nproc numfmt od paste pathchk pgrep pr ps readlink realpath rev rm rmdir sed seq sha1sum sha224sum sha256sum sha384sum
	sha512sum shred shuf sort split stat strings sum sync tac tail tar tee test touch tr truncate tsort tty uname unexpand uniq unlink
	unzip uptime uuidgen wc which who whoami xxd xz yes zcat zip

	apk argocd aws az calicoctl cilium consul curl dig doctl docker etcdctl flux gcloud getent git gomplate gpg
	gsutil helm host htpasswd influx ip ipmitool iptables istioctl jose jsonnet kubectl kubeadm kubeseal kustomize ldapsearch mc mongo
	mongodump mongosh mysql mysqladmin mysqldump nats nc nslookup oc openssl ping pg_dump pg_isready psql rabbitmqadmin rabbitmqctl
	rclone redis-cli rsync s3cmd sendmail skopeo snmptrap sops sqlite3 ssh-keygen ssh-keyscan step systemctl telnet tput vault velero
	wget yq
`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// isHarmless reports that a command cannot read the contexts unless a word or its input has them.
func isHarmless(name string, args []*syntax.Word) bool {
	switch name {
	case "command":
		return len(args) > 0 && slices.Contains([]string{"-v", "-V"}, args[0].Lit())
	case "exec":
		return len(args) == 0 // it redirects only
	case "set":
		// Without arguments it prints all variables, and with -a it exports them.
		return len(args) > 0 && !slices.ContainsFunc(args, func(w *syntax.Word) bool {
			text := spelled(w)
			return text == "allexport" || strings.HasPrefix(text, "-") && strings.Contains(text, "a")
		})
	case "xargs", "timeout":
		return isHarmlessBehind(args)
	case "awk", "gawk":
		for _, w := range args {
			text := spelled(w)
			if strings.HasPrefix(text, "-f") || strings.Contains(text, "system(") || strings.Contains(text, "getline") || strings.Contains(text, "ENVIRON") {
				return false
			}
		}
	case "sed":
		return !slices.ContainsFunc(args, func(w *syntax.Word) bool { return strings.HasPrefix(spelled(w), "-f") })
	}
	return harmless[name]
}

// isHarmlessBehind is isHarmless for a command that the arguments of another one contain: the first one that is neither an
// option nor the value of one.
func isHarmlessBehind(args []*syntax.Word) bool {
	for i := 0; i < len(args); i++ {
		text, ok := literal(args[i])
		switch {
		case !ok || text == "":
			return false
		case slices.Contains([]string{"-n", "-I", "-P", "-L", "-d", "-s", "-k"}, text):
			i++
		case text[0] == '-', text[0] >= '0' && text[0] <= '9':
		default:
			return harmless[text] && text != "awk" && text != "gawk" && text != "sed"
		}
	}
	return false
}

// spelled is the text of a word without its expansions.
func spelled(w *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(w, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Lit:
			b.WriteString(n.Value)
		case *syntax.SglQuoted:
			b.WriteString(n.Value)
		}
		return true
	})
	return b.String()
}
