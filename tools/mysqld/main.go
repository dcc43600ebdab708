// Command mysqld stands in for a MySQL server, for tests and for trying things out on machines without one. It speaks
// MySQL's protocol, checks user and password, and knows databases, but no tables. As with the real server a database
// is a folder of the data directory, so it outlives the server.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"
)

const usage = `Usage: mysqld --datadir DIR [--port PORT]

Listens on 127.0.0.1 and prints the address when it is ready. The port is a free one by default. The user is root, the
password is in the variable MYSQL_ROOT_PASSWORD.

`

func main() {
	flags := flag.NewFlagSet("mysqld", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	dir := flags.String("datadir", "", "folder of the databases, made if missing")
	port := flags.String("port", "0", "port to listen on, 0 for a free one")
	_ = flags.Parse(os.Args[1:])
	password := os.Getenv("MYSQL_ROOT_PASSWORD")
	if *dir == "" || password == "" || flags.NArg() > 0 {
		flags.Usage()
		os.Exit(2)
	}
	if err := serve(*dir, *port, password); err != nil {
		fmt.Fprintln(os.Stderr, "mysqld:", err)
		os.Exit(1)
	}
}

func serve(dir, port, password string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	fmt.Println("ready on", listener.Addr())

	users := server.NewInMemoryProvider()
	users.AddUser("root", password)
	conf := server.NewServer("8.0.0-standin", mysql.DEFAULT_COLLATION_ID, mysql.AUTH_NATIVE_PASSWORD, nil, nil)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			client, err := conf.NewCustomizedConn(conn, users, databases{dir: dir})
			if err != nil {
				return // the client has received the error
			}
			for !client.Closed() {
				// The client receives errors of its statements. Errors that arrive here are about the connection.
				if client.HandleCommand() != nil {
					return
				}
			}
		}()
	}
}

// databases carries out statements on a data directory.
type databases struct {
	server.EmptyHandler // refuses whatever is not known here
	dir                 string
}

// system are the databases that a server has always had.
var system = []string{"information_schema", "mysql", "performance_schema", "sys"}

// A name stands as it is, or between backticks, where two backticks mean one.
const name = "(?:([a-z0-9_$]+)|`((?:[^`]|``)+)`)"

var (
	create = regexp.MustCompile("(?i)^CREATE DATABASE (IF NOT EXISTS )?" + name + "$")
	drop   = regexp.MustCompile("(?i)^DROP DATABASE (IF EXISTS )?" + name + "$")
	show   = regexp.MustCompile("(?i)^SHOW DATABASES$")
	hello  = regexp.MustCompile(`(?i)^SELECT @@version_comment( LIMIT 1)?$`) // asked by the clients of MySQL and MariaDB
)

func (d databases) UseDB(string) error { return nil }

func (d databases) HandleQuery(query string) (*mysql.Result, error) {
	query = strings.TrimSuffix(strings.TrimSpace(query), ";")
	if m := create.FindStringSubmatch(query); m != nil {
		return &mysql.Result{AffectedRows: 1}, d.create(unquoted(m), m[1] != "")
	}
	if m := drop.FindStringSubmatch(query); m != nil {
		return &mysql.Result{}, d.drop(unquoted(m), m[1] != "")
	}
	switch {
	case show.MatchString(query):
		return d.show()
	case hello.MatchString(query):
		return rows("@@version_comment", "stand-in for tests")
	}
	return nil, mysql.NewDefaultError(mysql.ER_PARSE_ERROR, "This stand-in does not know that statement", query, 1)
}

func unquoted(match []string) string {
	return cmp.Or(match[2], strings.ReplaceAll(match[3], "``", "`"))
}

func (d databases) create(database string, ifMissing bool) error {
	path, err := d.path(database)
	if err != nil {
		return err
	}
	err = os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if ifMissing {
			return nil
		}
		return mysql.NewDefaultError(mysql.ER_DB_CREATE_EXISTS, database)
	}
	return err
}

func (d databases) drop(database string, ifThere bool) error {
	path, err := d.path(database)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		if ifThere {
			return nil
		}
		return mysql.NewDefaultError(mysql.ER_DB_DROP_EXISTS, database)
	}
	return err
}

// path refuses what is not a name in the data directory, and the system's databases.
func (d databases) path(database string) (string, error) {
	if len(database) > 64 || strings.ContainsAny(database, `/\.`) {
		return "", mysql.NewDefaultError(mysql.ER_WRONG_DB_NAME, database)
	}
	for _, s := range system {
		if strings.EqualFold(s, database) {
			return "", mysql.NewDefaultError(mysql.ER_DBACCESS_DENIED_ERROR, "root", "localhost", database)
		}
	}
	return filepath.Join(d.dir, database), nil
}

func (d databases) show() (*mysql.Result, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(system)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return rows("Database", names...)
}

// rows returns a table of one column.
func rows(column string, values ...string) (*mysql.Result, error) {
	table := make([][]any, len(values))
	for i, v := range values {
		table[i] = []any{v}
	}
	set, err := mysql.BuildSimpleTextResultset([]string{column}, table)
	return mysql.NewResult(set), err
}
