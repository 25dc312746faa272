# For measurements of engines: makes pages of targets, 200 DCGM-like series of 8 GPUs each, in $sets sets of values, and serves them with
# nginx on 127.0.0.1:18080. Sourced in an empty folder, with targets, sets and interval; adds to $pids.

echo "Making $sets sets of $targets targets" >&2
awk -v targets="$targets" -v sets="$sets" 'BEGIN {
    srand(1)
    n = split("SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_REPLAY_COUNTER GPU_UTIL MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE GR_ENGINE_ACTIVE PIPE_TENSOR_ACTIVE DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES FB_RESERVED", f, " ")
    for (s = 0; s < sets; s++) {
        system("mkdir set" s)
        for (t = 0; t < targets; t++) {
            file = "set" s "/" t
            for (i = 1; i <= n; i++) {
                printf "# HELP DCGM_FI_DEV_%s text\n# TYPE DCGM_FI_DEV_%s gauge\n", f[i], f[i] > file
                for (g = 0; g < 8; g++) {
                    v = 0
                    if (f[i] ~ /^(GPU|MEM_COPY)_UTIL/) v = int(rand() * 101)
                    else if (f[i] == "POWER_USAGE") v = sprintf("%.3f", 60 + rand() * 640)
                    else if (f[i] ~ /ENERGY/) v = sprintf("%d", 1e9 + s * 3e5 + int(rand() * 1000))
                    else if (f[i] ~ /ACTIVE/) v = sprintf("%.6f", rand())
                    else if (f[i] ~ /BYTES/) v = int(rand() * 1e9)
                    else if (f[i] ~ /FB_/) v = 1000 + 1000 * int(rand() * 3)
                    else if (f[i] ~ /TEMP/) v = 40 + int(rand() * 40)
                    else if (f[i] ~ /CLOCK/) v = 210 * (1 + int(rand() * 9))
                    printf "DCGM_FI_DEV_%s{gpu=\"%d\",UUID=\"GPU-%08x-52ab-4f2e-9c4e-%012x\",pci_bus_id=\"00000000:%02X:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-%04d\",DCGM_FI_DRIVER_VERSION=\"550.54.15\",container=\"inference\",namespace=\"team-%d\",pod=\"inference-%d-%d\"} %s\n", f[i], g, t * 8 + g, t, g, g, t, t % 20, t, g, v > file
                }
            }
            close(file)
        }
    }
    # The pods of the first 1,250 targets, a tenth with the label that the rule of a guide requires.
    for (t = 0; t < targets && t < 1250; t++)
        for (g = 0; g < 8; g++)
            printf "kube_pod_labels{namespace=\"team-%d\",pod=\"inference-%d-%d\",label_app=\"%s\"} 1\n", t % 20, t, g, (t * 8 + g) % 10 ? "other" : "cuda-test" > "pods"
}'
mkdir config # alone: both may watch its folder
{
    echo "global: {scrape_interval: ${interval}s, scrape_timeout: ${interval}s}"
    echo 'scrape_configs:'
    echo '- job_name: gpu'
    echo '  relabel_configs:'
    echo "  - {source_labels: [t], target_label: __metrics_path__, replacement: '/cur/\$1'}"
    echo '  static_configs:'
    seq 0 $((targets - 1)) | sed "s/.*/  - {targets: ['127.0.0.1:18080'], labels: {t: '&'}}/"
    echo "- {job_name: pods, metrics_path: /pods, static_configs: [{targets: ['127.0.0.1:18080']}]}"
} >config/p.yml
cat >nginx.conf <<EOF2
worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.log;
events { worker_connections 8192; }
worker_rlimit_nofile 20000;
http { access_log off; keepalive_requests 1000000; default_type text/plain; sendfile on;
       server { listen 127.0.0.1:18080 backlog=4096; location / { root $dir; } location /write { client_max_body_size 0; return 204; } } }
EOF2
chmod 755 "$dir"
ln -s set0 cur
nginx -c "$dir/nginx.conf"
(i=0; while sleep "$interval"; do i=$(((i + 1) % sets)); ln -s set$i next && mv -T next cur; done) &
pids="$pids $!"

# cpu_ms PID: of all its threads
cpu_ms() { cat "/proc/$1"/task/*/schedstat | awk '{ s += $1 } END { printf "%.0f", s / 1e6 }'; }
# cpu_of_query PID PORT QUERY [TIMES]: CPU time of one of TIMES (500) back to back on one connection, ms, without that of scrapes
cpu_of_query() {
    idle=$(cpu_ms "$1")
    sleep 5
    idle=$(($(cpu_ms "$1") - idle)) before=$(cpu_ms "$1") start=$(date +%s%N)
    curl -s -G -o answer --data-urlencode "query=$3" "http://127.0.0.1:$2/api/v1/query?n=[1-${4:-500}]"
    echo "scale=3; ($(cpu_ms "$1") - $before - $idle * ($(date +%s%N) - $start) / 5000000000) / ${4:-500}" | bc
}
