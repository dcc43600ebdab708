package adversary

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/shell-operator/shell-operator/internal/test"
)

// startServers starts what the hooks of a workload call.
func (w *world) startServers() {
	w.t.Helper()
	if w.load.Shop {
		w.shop = &shop{requests: map[string]int{}}
		server := httptest.NewServer(w.shop)
		w.t.Cleanup(server.Close)
		w.env = append(w.env, "SHOP_URL="+server.URL)
	}
	if w.load.Mysql {
		w.startMysql()
	}
}

// shop is what the example external-orders calls: it has shipped an order when it is asked for it a second time.
type shop struct {
	mu       sync.Mutex
	requests map[string]int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[r.URL.Path]++; s.requests[r.URL.Path] > 1 {
		fmt.Fprint(w, "shipped")
		return
	}
	fmt.Fprint(w, "accepted")
}

func (w *world) startMysql() {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(test.Tools(w.t), "mysqld"), "--datadir", w.t.TempDir(), "--port", "0")
	cmd.Env = append(cmd.Environ(), "MYSQL_ROOT_PASSWORD=secret")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	w.mysql = strings.TrimSpace(line[strings.LastIndex(line, ":")+1:])
	w.env = append(w.env, "MYSQL_HOST=127.0.0.1", "MYSQL_PORT="+w.mysql, "MYSQL_USER=root", "MYSQL_PWD=secret")
}

// external adds what the hooks have made outside of the cluster.
func (w *world) external(s state) {
	if w.mysql == "" {
		return
	}
	cmd := exec.Command(filepath.Join(test.Tools(w.t), "mysql"), "-h", "127.0.0.1", "-P", w.mysql, "-u", "root", "-N", "-e", "SHOW DATABASES")
	cmd.Env = append(cmd.Environ(), "MYSQL_PWD=secret")
	out, err := cmd.CombinedOutput()
	s["databases"] = fmt.Sprintf("%s%v", out, err)
}
