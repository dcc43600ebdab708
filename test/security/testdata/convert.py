#!/usr/bin/env python3
import json, os, sys, time
if sys.argv[1:] == ['--config']:
    print('{"configVersion": "v1", "kubernetesCustomResourceConversion": [{"name": "c", "crdName": "things.GROUP", "conversions": [{"fromVersion": "v1", "toVersion": "v2"}, {"fromVersion": "v2", "toVersion": "v1"}]}]}')
    sys.exit()
with open(os.environ['BINDING_CONTEXT_PATH']) as f:
    context = json.load(f)[0]
objects = context['review']['request']['objects']
while len(objects) > 10 and not os.path.exists(os.environ['RELEASE']):
    time.sleep(0.05)
for o in objects:
    o['apiVersion'] = context['review']['request']['desiredAPIVersion']
with open(os.environ['CONVERSION_RESPONSE_PATH'], 'w') as f:
    json.dump({'convertedObjects': objects}, f)
