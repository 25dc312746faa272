// SPDX-License-Identifier: Apache-2.0
// Temporary.
#include "slo/slo.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>
struct slo_state { int x; };
struct gs_error *slo_policy_parse(const char *text, struct slo_policy *ret){ *ret=(struct slo_policy){.percent=90}; const char*t=strstr(text,"ttft="); ret->seconds[0]= t? atof(t+5):0; t=strstr(text,"itl="); ret->seconds[1]=t?atof(t+4)/1000:0; ret->shadow=strstr(text,"shadow")!=NULL; return NULL;}
struct slo_state *slo_state_new(void){return gs_alloc(4);}
void slo_state_free(struct slo_state*s){free(s);}
json_t *slo_state_json(const struct slo_state *s, int64_t now_ms){return NULL;}
struct gs_error *slo_state_from_json(const json_t *in, int64_t now_ms, struct slo_state **ret){return NULL;}
void slo_policy_query(const struct slo_policy *p, const char *matchers, struct gs_buf *out){}
const char *slo_policy_series(const struct slo_policy *p, enum slo_latency l){return "";}
struct slo_reading *slo_reading_new(const struct slo_policy *p, struct slo_pod *pods, size_t n){return NULL;}
void slo_reading_add(struct slo_reading *r, const char *name, const char *pod, const char *le,
                     const char *role, double value, int64_t t_ms){}
enum slo_role slo_reading_end(struct slo_reading *r){return 0;}
void slo_reading_free(struct slo_reading *r){}
json_t *slo_decision_json(const struct slo_policy *policy, const struct slo_decision *d){return json_object();}
void slo_decide(const struct slo_policy *policy, const struct slo_observation *obs,
                struct slo_state *state, int64_t now_ms, bool terse, struct slo_decision *ret){
 memset(ret,0,sizeof *ret); double w=0,r=0; int n=0,st=0; for(size_t i=0;i<obs->n_pods;i++){ if(obs->pods[i].phase==SLO_POD_READY){n++; w+=obs->pods[i].v[SLO_WAITING]; r+=obs->pods[i].v[SLO_RUNNING];} else st++;}
 int p = (int)ceil((r+w)/24); if(p<1)p=1; if (p>n+st+2) p=n+st+2; ret->proposal=p; snprintf(ret->explanation,256,"stub: %g running, %g waiting: %d replicas",r,w,p);}
