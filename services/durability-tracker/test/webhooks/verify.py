# Verifies messages with the published library: JSON lines of {secret, headers, body} in, "ok" or "refused" a line out.
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    message = json.loads(line)
    try:
        Webhook(message["secret"]).verify(message["body"], message["headers"])
        print("ok")
    except WebhookVerificationError:
        print("refused")
