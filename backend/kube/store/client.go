package store

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// secrets reads and writes the Secrets of one namespace. Writes and watches return only metadata,
// so that values travel once.
type secrets struct {
	web       *http.Client
	rest      *rest.RESTClient
	params    runtime.ParameterCodec
	namespace string
}

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	asOne    = protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asList   = protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	manager  = "slipway-store"
)

func newSecrets(cfg *rest.Config, namespace string) (*secrets, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	cfg = storeConfig(cfg, scheme)
	web, err := kubehttp.ClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := rest.RESTClientForConfigAndClient(cfg, web)
	if err != nil {
		return nil, err
	}
	return &secrets{web: web, rest: client, params: runtime.NewParameterCodec(scheme), namespace: namespace}, nil
}

// storeConfig returns a copy of cfg for the Secrets of an API server.
func storeConfig(cfg *rest.Config, scheme *runtime.Scheme) *rest.Config {
	cfg = api.HubConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &corev1.SchemeGroupVersion, "/api"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = protobuf, protobuf
	cfg.Wrap(countSends)
	return cfg
}

func (c *secrets) get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.rest.Get().Namespace(c.namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
	return secret, fromServer(err)
}

func (c *secrets) create(ctx context.Context, secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	made := &metav1.PartialObjectMetadata{}
	err := c.rest.Post().Namespace(c.namespace).Resource("secrets").SetHeader("Accept", asOne).
		VersionedParams(&metav1.CreateOptions{FieldManager: manager}, c.params).Body(secret).Do(ctx).Into(made)
	return made, fromServer(err)
}

// update writes a Secret; its resourceVersion is a precondition.
func (c *secrets) update(ctx context.Context, secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	made := &metav1.PartialObjectMetadata{}
	err := c.rest.Put().Namespace(c.namespace).Resource("secrets").Name(secret.Name).SetHeader("Accept", asOne).
		VersionedParams(&metav1.UpdateOptions{FieldManager: manager}, c.params).Body(secret).Do(ctx).Into(made)
	return made, fromServer(err)
}

func (c *secrets) remove(ctx context.Context, name, resourceVersion string, uid types.UID) error {
	how := metav1.DeletePropagationBackground
	o := &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},
		PropagationPolicy: &how,
	}
	return fromServer(c.rest.Delete().Namespace(c.namespace).Resource("secrets").Name(name).Body(o).Do(ctx).Error())
}

// list returns a page of Secrets.
func (c *secrets) list(ctx context.Context, o metav1.ListOptions) ([]corev1.Secret, metav1.ListMeta, error) {
	list := &corev1.SecretList{}
	err := c.rest.Get().Namespace(c.namespace).Resource("secrets").VersionedParams(&o, c.params).Do(ctx).Into(list)
	return list.Items, list.ListMeta, fromServer(err)
}

// listMeta returns a page of the metadata of Secrets. It tries once.
func (c *secrets) listMeta(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	err := c.rest.Get().Namespace(c.namespace).Resource("secrets").SetHeader("Accept", asList).
		VersionedParams(&o, c.params).MaxRetries(0).Do(ctx).Into(list)
	return list, fromServer(err)
}

// watch watches the metadata of Secrets. It tries once.
func (c *secrets) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	w, err := c.rest.Get().Namespace(c.namespace).Resource("secrets").SetHeader("Accept", asOne).
		VersionedParams(&o, c.params).MaxRetries(0).Watch(ctx)
	return w, fromServer(err)
}

func (c *secrets) createNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return fromServer(c.rest.Post().Resource("namespaces").VersionedParams(&metav1.CreateOptions{FieldManager: manager}, c.params).
		Body(ns).Do(ctx).Error())
}

// fromServer returns err, unless it says that there is no kind Secret. Every API server has
// Secrets, so another server has answered, such as a proxy whose server is starting, and the
// state of the record is unknown.
func fromServer(err error) error {
	if kubehttp.NoSuchKind(err) {
		return api.ErrNoServer
	}
	return err
}
