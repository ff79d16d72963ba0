package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// troublemaker stands between clients and the API server. It writes every request down and, when it is told to, is
// busy (429 with Retry-After) or breaks all connections.
type troublemaker struct {
	forward *httputil.ReverseProxy

	mutex       sync.Mutex
	requests    *json.Encoder
	retryAfter  int
	connections map[net.Conn]struct{}
}

// request is one line of the list: how it began, and with which status it was answered (0: not at all).
type request struct {
	Time      float64 `json:"time"`
	Method    string  `json:"method"`
	URI       string  `json:"uri"`
	UserAgent string  `json:"user_agent"`
	Status    int     `json:"status"`
}

func proxy(arguments []string) error {
	flags := flag.NewFlagSet("proxy", flag.ExitOnError)
	listen := flags.String("listen", "", "addresses for clients, divided by commas")
	control := flags.String("control", "", "address for orders")
	upstream := flags.String("upstream", "", "URL of the API server")
	pki := flags.String("pki", "", "directory with ca.crt, apiserver.crt, apiserver.key")
	list := flags.String("requests", "", "file for the list of requests")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	maker, err := newTroublemaker(*upstream, *pki, *list)
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- http.ListenAndServe(*control, maker.orders()) }()
	for _, address := range strings.Split(*listen, ",") {
		server := &http.Server{Addr: address, Handler: maker, ConnState: maker.connection}
		go func() { failed <- server.ListenAndServeTLS(*pki+"/apiserver.crt", *pki+"/apiserver.key") }()
	}
	return <-failed
}

func newTroublemaker(upstream, pki, list string) (*troublemaker, error) {
	target, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(pki + "/ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	file, err := os.Create(list)
	if err != nil {
		return nil, err
	}
	maker := &troublemaker{requests: json.NewEncoder(file), connections: map[net.Conn]struct{}{}}
	maker.forward = &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) },
		// A watch is answered line by line.
		FlushInterval: -1,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		ModifyResponse: func(response *http.Response) error {
			maker.note(response.Request, response.StatusCode)
			return nil
		},
		// A server that is down answers nothing, not even an error.
		ErrorHandler: func(_ http.ResponseWriter, request *http.Request, _ error) {
			maker.note(request, 0)
			panic(http.ErrAbortHandler)
		},
	}
	return maker, nil
}

func (maker *troublemaker) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	maker.mutex.Lock()
	retryAfter := maker.retryAfter
	maker.mutex.Unlock()
	if retryAfter == 0 {
		maker.forward.ServeHTTP(writer, request)
		return
	}
	maker.note(request, http.StatusTooManyRequests)
	writer.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	http.Error(writer, "busy", http.StatusTooManyRequests)
}

// note writes a request down once it is known how it is answered.
func (maker *troublemaker) note(asked *http.Request, status int) {
	maker.mutex.Lock()
	defer maker.mutex.Unlock()
	line := request{
		Time:      float64(time.Now().UnixMicro()) / 1e6,
		Method:    asked.Method,
		URI:       asked.URL.RequestURI(),
		UserAgent: asked.UserAgent(),
		Status:    status,
	}
	if err := maker.requests.Encode(line); err != nil {
		fail(err)
	}
}

func (maker *troublemaker) connection(connection net.Conn, state http.ConnState) {
	maker.mutex.Lock()
	defer maker.mutex.Unlock()
	switch state {
	case http.StateNew:
		maker.connections[connection] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(maker.connections, connection)
	}
}

// orders is the handler of `POST /busy?retry_after=SECONDS` (0 ends it) and `POST /cut`.
func (maker *troublemaker) orders() http.Handler {
	orders := http.NewServeMux()
	orders.HandleFunc("POST /busy", func(writer http.ResponseWriter, order *http.Request) {
		seconds, err := strconv.Atoi(order.FormValue("retry_after"))
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		maker.mutex.Lock()
		defer maker.mutex.Unlock()
		maker.retryAfter = seconds
	})
	orders.HandleFunc("POST /cut", func(_ http.ResponseWriter, _ *http.Request) {
		maker.mutex.Lock()
		defer maker.mutex.Unlock()
		for connection := range maker.connections {
			// Its end is noticed by the server, which reports it in `connection`.
			_ = connection.Close()
		}
	})
	return orders
}
